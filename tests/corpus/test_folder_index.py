"""Recordings are found by name from one walk of the folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.corpus.folder_index import FolderIndex, speakers_by_folder
from myxtts.errors import CorpusError

part = st.text("abc_-. é", min_size=1, max_size=6).filter(lambda name: not name.startswith(".") and name.strip(". "))
path = st.lists(part, min_size=1, max_size=3).map("/".join)


@given(path, st.sampled_from([".wav", ".flac", ".MP3"]))
def test_a_recording_is_found_by_its_path_with_and_without_extension(tmp_path_factory, stem, extension):
    root = tmp_path_factory.mktemp("walked").resolve()
    recording = root / f"{stem}{extension}"
    recording.parent.mkdir(parents=True, exist_ok=True)
    recording.touch()
    index = FolderIndex.walk(root)
    for name in (stem, f"{stem}{extension}", f"./{stem}{extension}", f"{stem}{extension}".replace("/", "\\")):
        found = index.find_audio(name)
        assert found is not None, name
        assert index.absolute(found) == recording
    assert index.local_name(str(recording)) == f"{stem}{extension}"


@pytest.mark.parametrize(
    ("paths", "speakers"),
    [
        (["anna/1.wav", "ben/1.wav"], ["anna", "ben"]),
        (["wavs/anna/x/1.wav", "wavs/ben/1.wav"], ["anna", "ben"]),
        (["train/anna/1.wav", "dev/ben/2.wav"], ["anna", "ben"]),
        (["1.wav", "anna/1.wav"], ["", "anna"]),
        (["wavs/1.wav", "wavs/2.wav"], ["", ""]),
        ([], []),
    ],
)
def test_subfolders_that_recordings_do_not_share_are_speakers(paths, speakers):
    assert speakers_by_folder(paths) == speakers


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read"):
        FolderIndex.walk(tmp_path / "gone")


def test_a_link_to_itself_and_one_to_a_folder_above_are_walked_past(tmp_path):
    (tmp_path / "a.wav").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to("..")
    assert FolderIndex.walk(tmp_path.resolve()).find_audio("a") == "a.wav"


def test_a_link_that_disappears_during_the_walk_is_walked_past(tmp_path, monkeypatch):
    (tmp_path / "a.wav").touch()
    (tmp_path / "gone.wav").symlink_to("a.wav")

    def gone(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr("os.path.realpath", gone)
    assert FolderIndex.walk(tmp_path).find_audio("a") == "a.wav"
