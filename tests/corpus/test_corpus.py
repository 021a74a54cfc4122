"""A folder becomes utterances and rejections with reasons; both splits with the state of their files, read once."""

import itertools
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.config.config import DataConfig
from myxtts.corpus import layouts
from myxtts.corpus.corpus import SAME_ID_PREFIX, bundled_corpus, is_held_out, read_corpus, read_manifest, read_splits
from myxtts.corpus.folder_index import FolderIndex
from myxtts.errors import CorpusError
from tests.corpus.tiny_corpus import make_corpus, write_metadata

needs_any_file_name = pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode on this system")


def make_folder(folder, metadata, audio=("a.wav", "b.wav"), place="wavs"):
    """A folder with `metadata` (a dict of files, or the text of metadata.csv) and empty recordings."""
    files = metadata if isinstance(metadata, dict) else {"metadata.csv": metadata}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in audio:
        (folder / place / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / place / name).touch()
    return folder


def texts(manifest):
    return {each.id: each.text for each in manifest.utterances}


def reasons(manifest):
    return {each.id: each.reason for each in manifest.rejected}


def test_two_columns_are_id_and_text(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "a|One.\nb|Two, and more.\n"), "fr")
    assert texts(manifest) == {"a": "One.", "b": "Two, and more."}
    first = manifest.utterances[0]
    assert (first.path, first.language, first.speaker) == (tmp_path.resolve() / "wavs" / "a.wav", "fr", "speaker")
    assert (manifest.layout, manifest.rejected) == ("LJSpeech", ())


def test_the_normalized_column_is_preferred_where_it_is_filled(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "a|Dr. X|Doctor X\nb|Plain|\n"))
    assert texts(manifest) == {"a": "Doctor X", "b": "Plain"}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa|One.\nb|Two.\n",
        b"a|One.\r\nb|Two.\r\n",
        b"a|One.\rb|Two.",
        b"id|text\na|One.\nb|Two.\n",
        b"\xef\xbb\xbfid|text\r\na|One.\r\nb|Two.\r\n",
        b"file_name|transcription\na.wav|One.\nwavs/b.wav|Two.\n",
        b"\na|One.\n\n   \nb|Two.\n\n",
        b" a | One. \n b | Two. \n",
    ],
)
def test_byte_order_mark_line_ends_headers_and_blank_lines(tmp_path, content):
    manifest = read_manifest(make_folder(tmp_path, content))
    assert list(texts(manifest).values()) == ["One.", "Two."]
    assert manifest.rejected == ()


def test_speaker_and_language_are_columns_of_the_header_in_any_order(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "speaker|id|language|text\nx|a|es|Uno\n|b||Two\n"), "en")
    assert [(each.speaker, each.language, each.text) for each in manifest.utterances] == [
        ("x", "es", "Uno"),
        ("speaker", "en", "Two"),
    ]


def test_quotation_marks_and_line_separators_belong_to_the_text(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, 'a|"Well," he said\nb|one\u2028two\n'))
    assert texts(manifest) == {"a": '"Well," he said', "b": "one\u2028two"}


def test_recordings_are_found_in_any_subfolder_and_format(tmp_path):
    subfolders = ("wavs", ".", "wavs/deep/er", "recordings")
    names = ("a.wav", "a.flac", "a.OGG", "a.opus", "a.mp3", "a.unknown")
    cases = itertools.product(subfolders, names, ("a", "a.wav", "./a.mp3"))
    for number, (subfolder, name, clip) in enumerate(cases):
        folder = make_folder(tmp_path / str(number), f"{clip}|One.\n", [name], subfolder)
        (found,) = read_manifest(folder).utterances
        assert found.path == (folder / subfolder / name).resolve(), (subfolder, name, clip)
        assert found.id in ("a", "./a")


def test_ids_may_name_subfolders_and_hold_dots(tmp_path):
    audio = ["x/one.wav", "y/one.wav", "v1.2.wav"]
    manifest = read_manifest(make_folder(tmp_path, "x/one|X\ny/one|Y\nv1.2|Dots\n", audio))
    assert [str(each.path.relative_to(tmp_path.resolve())) for each in manifest.utterances] == [
        "wavs/x/one.wav",
        "wavs/y/one.wav",
        "wavs/v1.2.wav",
    ]


def test_a_name_that_two_subfolders_have_is_not_guessed(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "one|Which?\nb|Two\n", ["x/one.wav", "y/one.wav", "b.wav"]))
    assert reasons(manifest) == {"one": "missing"}


def test_accents_written_as_two_characters_are_found(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "caf\u00e9|Un.\n", ["cafe\u0301.wav"]))
    assert len(manifest.utterances) == 1


def test_the_text_file_next_to_a_recording_is_not_read_as_audio(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "a|One.\n", ["a.txt", "a.flac", "a.json"]))
    assert manifest.utterances[0].path.name == "a.flac"


def test_every_defect_is_rejected_with_its_reason(tmp_path):
    outside = tmp_path / "secret.wav"
    outside.touch()
    lines = [
        "a|Good, déjà vu.".encode(),
        b"gone|No recording.",
        b"b|",
        b"c|  |  ",
        b"a|Listed again.",
        b"a.wav|And again.",
        b"../secret|Climbs.",
        b"/etc/passwd|Absolute.",
        b"..\\secret|Climbs with backslashes.",
        b"C:\\x|A drive.",
        b"linked|A link out.",
        b"d|Caf\xe9 in Latin-1",
        b"lonely",
        b"|No id.",
        b"noise|[laughter]",
    ]
    folder = make_folder(tmp_path / "corpus", b"\n".join(lines), ["a.wav", "b.wav", "c.wav", "d.wav", "noise.wav"])
    os.symlink(outside, folder / "wavs" / "linked.wav")
    manifest = read_manifest(folder)
    assert texts(manifest) == {"a": "Good, déjà vu."}
    assert sorted((each.id, each.reason) for each in manifest.rejected) == sorted(
        [
            ("gone", "missing"),
            ("b", "empty text"),
            ("c", "empty text"),
            ("a", "duplicate id"),
            ("a", "duplicate id"),
            ("../secret", "outside the folder"),
            ("/etc/passwd", "outside the folder"),
            ("..\\secret", "outside the folder"),
            ("C:\\x", "outside the folder"),
            ("linked", "outside the folder"),
            ("d", "invalid UTF-8"),
            ("lonely", "too few columns"),
            ("", "empty id"),
            ("noise", "not speech"),
        ]
    )


def test_a_rejection_names_file_and_line(tmp_path):
    manifest = read_manifest(make_folder(tmp_path, "a|One.\nb|Two.\ngone|Three.\n"))
    assert "metadata.csv:3" in manifest.rejected[0].detail


def test_a_linked_folder_that_leads_out_is_not_followed(tmp_path):
    elsewhere = make_folder(tmp_path / "elsewhere", {}, ["b.wav"])
    folder = make_folder(tmp_path / "corpus", "a|One.\nmore/b|Two.\n", ["a.wav"])
    os.symlink(elsewhere / "wavs", folder / "wavs" / "more")
    manifest = read_manifest(folder)
    assert texts(manifest) == {"a": "One."}
    assert reasons(manifest) == {"more/b": "outside the folder"}


def test_links_within_the_folder_are_followed_and_loops_end(tmp_path):
    folder = make_folder(tmp_path, "b|Two.\n", ["a.wav"])
    os.symlink(folder / "wavs" / "a.wav", folder / "wavs" / "b.wav")
    os.symlink(folder / "wavs", folder / "wavs" / "again")
    assert texts(read_manifest(folder)) == {"b": "Two."}


def test_text_that_merely_begins_with_a_bracket_is_speech(tmp_path):
    assert len(read_manifest(make_folder(tmp_path, "a|[One] and two [three]\n")).utterances) == 1


@pytest.mark.parametrize("content", ["", "id|text\n", "gone|Nothing there.\n", b"\xff\xfe\x00a|x\n"])
def test_nothing_usable_is_an_error_that_says_what_was_found(tmp_path, content):
    with pytest.raises(CorpusError, match="No usable clip"):
        read_manifest(make_folder(tmp_path, content))


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="does not exist"):
        read_manifest(tmp_path / "nowhere")


def test_a_folder_of_no_known_kind_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match=r"No corpus was recognized.*metadata\.csv"):
        read_manifest(tmp_path)


def test_license_and_attribution_are_kept(tmp_path):
    files = {"metadata.csv": "a|One.\n", "LICENSE.txt": "CC-BY", "ATTRIBUTION.md": "By A."}
    manifest = read_manifest(make_folder(tmp_path, files))
    assert (manifest.license, manifest.attribution) == ("CC-BY", "By A.")


def many(count, start=0):
    return "".join(f"clip{number}|Text {number}.\n" for number in range(start, count))


def ids(folder, split, **arguments):
    return {each.id for each in read_manifest(folder, split=split, **arguments).utterances}


def test_the_split_is_complete_disjoint_and_of_the_fraction_asked_for(tmp_path):
    folder = make_folder(tmp_path, many(2000), [f"clip{number}.wav" for number in range(2000)])
    train, validation = ids(folder, "train"), ids(folder, "validation")
    assert train | validation == ids(folder, "all")
    assert not train & validation
    assert 60 < len(validation) < 140


def test_no_clip_changes_sides_when_others_are_added(tmp_path):
    small = make_folder(tmp_path / "small", many(300), [f"clip{number}.wav" for number in range(300)])
    large = make_folder(tmp_path / "large", many(900), [f"clip{number}.wav" for number in range(900)])
    assert ids(small, "validation") == ids(large, "validation") & ids(small, "all")


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_fraction_holds_out_the_same_clips_and_more(clip_id, one, other):
    smaller, larger = sorted((one, other))
    assert is_held_out(clip_id, larger) or not is_held_out(clip_id, smaller)
    assert is_held_out(clip_id, 1.0)
    assert not is_held_out(clip_id, 0.0)


SPLIT_FILES = {"metadata_train.csv": "a|One.\n", "metadata_eval.csv": "b|Two.\n"}


def test_metadata_train_and_eval_are_the_split(tmp_path):
    folder = make_folder(tmp_path, SPLIT_FILES)
    assert (ids(folder, "train"), ids(folder, "validation"), ids(folder, "all")) == ({"a"}, {"b"}, {"a", "b"})


def test_with_metadata_and_an_evaluation_list_the_rest_trains(tmp_path):
    folder = make_folder(tmp_path, {"metadata.csv": "a|One.\nb|Two.\n", "metadata_eval.csv": "b|Two.\n"})
    assert (ids(folder, "train"), ids(folder, "validation"), ids(folder, "all")) == ({"a"}, {"b"}, {"a", "b"})


def test_a_clip_in_both_lists_is_not_trained_on(tmp_path):
    files = {"metadata_train.csv": "a|One.\nb|Two.\n", "metadata_eval.csv": "b.wav|Two.\n"}
    manifest = read_manifest(make_folder(tmp_path, files), split="train")
    assert texts(manifest) == {"a": "One."}
    assert reasons(manifest) == {"b": "duplicate id"}


def test_another_folder_is_the_validation_set_as_a_whole(tmp_path):
    train = make_folder(tmp_path / "train", "a|One.\nb|Two.\n")
    other = make_folder(tmp_path / "other", "c|Three.\nd|Four.\n", ["c.wav", "d.wav"])
    assert ids(train, "train", val_folder=other) == {"a", "b"}
    assert ids(train, "validation", val_folder=other) == {"c", "d"}


def test_the_same_folder_twice_is_split_not_shared(tmp_path):
    folder = make_folder(tmp_path, SPLIT_FILES)
    assert ids(folder, "train", val_folder=folder) == {"a"}
    assert ids(folder, "validation", val_folder=folder) == {"b"}


@pytest.mark.parametrize("files", [SPLIT_FILES, {"metadata.csv": many(60)}])
@pytest.mark.parametrize("has_other", [False, True])
def test_both_splits_at_once_are_those_of_two_readings(tmp_path, files, has_other):
    audio = ["a.wav", "b.wav", *(f"clip{number}.wav" for number in range(60))]
    folder = make_folder(tmp_path / "corpus", files, audio)
    other = make_folder(tmp_path / "other", "c|Three.\n", ["c.wav"]) if has_other else None
    assert read_splits(folder, "en", 0.2, other) == (
        read_manifest(folder, "en", "train", 0.2, other),
        read_manifest(folder, "en", "validation", 0.2, other),
    )


def test_a_held_out_list_with_nothing_usable_does_not_stop_training(tmp_path):
    train, validation = read_splits(make_folder(tmp_path, SPLIT_FILES | {"metadata_eval.csv": "gone|Two.\n"}))
    assert texts(train) == {"a": "One."}
    assert (validation.utterances, reasons(validation)) == ((), {"gone": "missing"})


def ids_of(corpus, is_validation):
    return [one.id for one, held in zip(corpus.utterances, corpus.is_validation, strict=True) if held == is_validation]


def test_both_splits_come_with_the_state_of_their_files(tmp_path):
    lines = make_corpus(tmp_path, 4)
    write_metadata(tmp_path, {"clip002": lines["clip002"]}, "metadata_eval.csv")
    corpus = read_corpus(DataConfig(), tmp_path)
    assert (ids_of(corpus, False), ids_of(corpus, True)) == (["clip000", "clip001", "clip003"], ["clip002"])
    states = [os.stat(one.path) for one in corpus.utterances]
    assert corpus.sizes.tolist() == [state.st_size for state in states]
    assert corpus.mtimes_ns.tolist() == [state.st_mtime_ns for state in states]


def test_terms_of_the_corpus_are_part_of_it(tmp_path):
    make_corpus(tmp_path, 1)
    (tmp_path / "LICENSE").write_text("CC0")
    (tmp_path / "credits.md").write_text("By Anna.")
    corpus = read_corpus(DataConfig(train_data=str(tmp_path)))
    assert (corpus.license, corpus.attribution) == ("CC0", "By Anna.")


def test_the_folder_and_its_one_list_are_read_once(tmp_path, monkeypatch):
    make_corpus(tmp_path, 20)
    calls = []
    walk, read = FolderIndex.walk, layouts.read_metadata
    monkeypatch.setattr(FolderIndex, "walk", lambda root: calls.append("walk") or walk(root))
    monkeypatch.setattr(layouts, "read_metadata", lambda *arguments: calls.append("metadata") or read(*arguments))
    corpus = read_corpus(DataConfig(validation_share=0.4), tmp_path)
    assert len(corpus.utterances) == 20
    assert 0 < corpus.is_validation.sum() < 20
    assert calls == ["walk", "metadata"]


def test_the_same_id_in_a_validation_folder_is_another_clip(tmp_path):
    make_corpus(tmp_path / "train", 2)
    make_corpus(tmp_path / "other", 3)
    corpus = read_corpus(DataConfig(val_data=str(tmp_path / "other")), tmp_path / "train")
    assert ids_of(corpus, False) == ["clip000", "clip001"]
    assert ids_of(corpus, True) == [f"{SAME_ID_PREFIX}clip000", f"{SAME_ID_PREFIX}clip001", "clip002"]


def test_a_clip_that_two_lists_name_is_only_validated_on(tmp_path):
    header = "path\tsentence\n"
    (tmp_path / "clips").mkdir()
    for name in ("a.mp3", "b.mp3"):
        (tmp_path / "clips" / name).touch()
    (tmp_path / "train.tsv").write_text(f"{header}a.mp3\tOne\nb.mp3\tTwo\n")
    (tmp_path / "dev.tsv").write_text(f"{header}b.mp3\tTwo\n")
    corpus = read_corpus(DataConfig(), tmp_path)
    assert (ids_of(corpus, False), ids_of(corpus, True)) == (["a"], ["b"])
    assert [(one.id, one.reason) for one in corpus.rejections] == [("b", "duplicate id")]


def test_without_a_folder_it_is_the_bundled_corpus():
    corpus = read_corpus(DataConfig())
    assert corpus.folder == bundled_corpus()
    assert "CC-BY-SA-3.0" in corpus.license


@pytest.mark.parametrize("is_rejected", [False, True])
def test_names_that_the_locale_cannot_find_are_an_error(tmp_path, monkeypatch, is_rejected):
    """Recordings that are not ASCII look missing where file names are read as ASCII."""
    make_corpus(tmp_path, 1)
    write_metadata(tmp_path, {"سلام": "one"} | ({"clip000": "two"} if is_rejected else {}))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(CorpusError, match="PYTHONUTF8=1"):
        read_corpus(DataConfig(), tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        '{"file_name": "clip001.wav", "text": "\\ud800 two"}',
        '{"file_name": "clip001.wav", "text": "two", "speaker": "\\ud800"}',
    ],
)
def test_half_a_character_in_json_rejects_its_line_only(tmp_path, line):
    make_corpus(tmp_path, 2)
    (tmp_path / "metadata.csv").unlink()
    (tmp_path / "metadata.jsonl").write_text(f'{{"file_name": "clip000.wav", "text": "one"}}\n{line}\n')
    corpus = read_corpus(DataConfig(), tmp_path)
    assert [one.id for one in corpus.utterances] == ["clip000"]
    assert [(one.id, one.reason) for one in corpus.rejections] == [("clip001", "invalid UTF-8")]


@needs_any_file_name
def test_a_recording_whose_name_is_not_utf8_is_rejected_alone(tmp_path):
    make_corpus(tmp_path, 1)
    (tmp_path / "metadata.csv").unlink()
    for stem in (b"a", b"\xff"):
        base = os.fsencode(tmp_path) + b"/wavs/" + stem
        os.link(tmp_path / "wavs" / "clip000.wav", base + b".wav")
        with open(base + b".txt", "w") as file:
            file.write("one")
    corpus = read_corpus(DataConfig(), tmp_path)
    assert [one.id for one in corpus.utterances] == ["wavs/a"]
    assert ("wavs/\udcff", "invalid UTF-8") in [(one.id, one.reason) for one in corpus.rejections]


@needs_any_file_name
def test_a_folder_whose_name_is_not_utf8_is_one_clear_error(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with pytest.raises(CorpusError, match="not UTF-8"):
        read_corpus(DataConfig(), os.fsdecode(folder))


def test_the_message_about_unusable_lines_stays_short(tmp_path):
    (tmp_path / "metadata.csv").write_text("[" * 100_000)
    with pytest.raises(CorpusError) as caught:
        read_corpus(DataConfig(), tmp_path)
    assert len(str(caught.value)) < 1500
