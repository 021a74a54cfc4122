"""A written corpus is read back, as is one made of a folder of recordings; the bundled corpus is as documented."""

import os
import re
import sys

import numpy as np
import pytest

from myxtts.audio.files import probe_audio, write_audio
from myxtts.corpus.corpus import bundled_corpus, read_manifest
from myxtts.corpus.corpus_writer import MetadataLine, build_folder_corpus, choose_held_out, finish_corpus, write_split
from myxtts.errors import CorpusError


def line(clip_id, text="one two three four", seconds=1.0, speaker="anna", language="en"):
    return MetadataLine(clip_id, text, text, speaker, language, seconds)


def test_written_lines_are_read_back(tmp_path):
    lines = [line("a", "A | pipe"), line("b", "Due", language="it", speaker="bo", seconds=2.0)]
    for each in lines:
        (tmp_path / f"{each.id}.wav").touch()
    summary = finish_corpus(tmp_path, lines, [], ["a notice"])
    assert (summary.clips, summary.seconds, summary.clips_by_language) == (2, 3.0, {"en": 1, "it": 1})
    assert (summary.speakers, summary.notices) == (("anna", "bo"), ("a notice",))
    assert [(each.id, each.text, each.speaker, each.language) for each in read_manifest(tmp_path).utterances] == [
        ("a", "A   pipe", "anna", "en"),
        ("b", "Due", "bo", "it"),
    ]


def test_held_out_sentences_are_long_unique_and_spread_over_the_lengths():
    lines = [line(f"c{number}", f"this is sentence number {number}", seconds=number) for number in range(12)]
    lines += [line("short", "two words"), line("twin1", "the same four words"), line("twin2", "The same, four words!")]
    assert choose_held_out(lines, 3) == {"c2", "c6", "c10"}
    with pytest.raises(CorpusError, match="only 12 are long enough and unique"):
        choose_held_out(lines, 13)


def test_a_written_split_is_the_split_of_the_corpus(tmp_path):
    lines = [line(f"c{number}", f"this is sentence number {number}") for number in range(4)]
    for each in lines:
        (tmp_path / f"{each.id}.wav").touch()
    write_split(tmp_path, lines, held_out=1)
    assert len(read_manifest(tmp_path, split="train").utterances) == 3
    assert len(read_manifest(tmp_path, split="validation").utterances) == 1


def words(text):
    return re.sub(r"\W+", " ", text).casefold().split()


def test_the_bundled_corpus_lists_563_prompts_of_one_speaker():
    manifest = read_manifest(bundled_corpus(), split="all")
    assert len(manifest.utterances) + len(manifest.rejected) == 563
    assert {each.reason for each in manifest.rejected} == {"not speech"}
    assert len(manifest.rejected) == 12  # ten silences and two beeps
    assert {(each.speaker, each.language) for each in manifest.utterances} == {("Allison", "en")}


def test_the_bundled_corpus_is_25_minutes_at_16_khz_in_10_mb():
    lengths = [probe_audio(path) for path in sorted((bundled_corpus() / "wavs").iterdir())]
    assert {rate for _, rate in lengths} == {16000}
    assert sum(samples for samples, _ in lengths) / 16000 == pytest.approx(25.2 * 60, abs=6)
    size = sum(path.stat().st_size for path in bundled_corpus().rglob("*") if path.is_file())
    assert size <= 10_000_000


def test_the_held_out_list_has_60_sentences_that_training_never_sees():
    train = read_manifest(bundled_corpus(), split="train").utterances
    held_out = read_manifest(bundled_corpus(), split="validation").utterances
    assert len(held_out) == 60
    assert len(train) + len(held_out) == 551
    assert min(len(words(each.text)) for each in held_out) >= 4
    assert not {tuple(words(each.text)) for each in train} & {tuple(words(each.text)) for each in held_out}


def test_the_bundled_corpus_carries_license_and_attribution():
    manifest = read_manifest(bundled_corpus())
    assert "CREATIVE COMMONS PUBLIC LICENSE" in manifest.license
    assert "Allison Smith" in manifest.attribution
    assert "CC-BY-SA-3.0" in manifest.attribution


def tone():
    return (0.3 * np.sin(np.arange(16000) * 0.1)).astype(np.float32)


def make_pairs(folder):
    (folder / "sub").mkdir(parents=True)
    for name, text in {
        "one": b"Number | one.\n",
        "sub/two": "\ufeffشماره دو".encode(),
        "empty": b" \n",
        "bad": b"\xff",
    }.items():
        write_audio(folder / f"{name}.wav", tone(), 16000)
        (folder / f"{name}.txt").write_bytes(text)
    write_audio(folder / "alone.flac", tone(), 16000)
    (folder / "broken.wav").write_bytes(b"no audio at all")
    (folder / "broken.txt").write_text("Broken.")
    return folder


def test_a_folder_of_pairs_becomes_a_corpus_in_place(tmp_path):
    folder = make_pairs(tmp_path / "pairs")
    summary = build_folder_corpus(folder, language="Persian", speaker="me")
    assert {each.id: each.reason for each in summary.rejected} == {
        "empty": "empty text",
        "bad": "invalid UTF-8",
        "alone": "empty text",
        "broken": "not audio",
    }
    manifest = read_manifest(folder)
    assert {each.id: (each.text, each.language, each.speaker) for each in manifest.utterances} == {
        "one": ("Number one.", "fa", "me"),
        "sub/two": ("شماره دو", "fa", "me"),
    }


@pytest.mark.parametrize("copy_audio", [False, True])
def test_a_folder_of_pairs_becomes_a_corpus_elsewhere(tmp_path, copy_audio):
    source = make_pairs(tmp_path / "pairs")
    before = sorted(os.listdir(source))
    build_folder_corpus(source, tmp_path / "out", language="fa", copy_audio=copy_audio)
    manifest = read_manifest(tmp_path / "out")
    assert {each.id for each in manifest.utterances} == {"one", "sub/two"}
    assert os.path.samefile(manifest.utterances[0].path, source / "one.wav") != copy_audio
    assert sorted(os.listdir(source)) == before


def test_subfolders_of_a_folder_of_pairs_are_speakers(tmp_path):
    for name in ("anna/chapter/1", "anna/2", "ben/1", "3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_audio(tmp_path / f"{name}.wav", tone(), 16000)
        (tmp_path / f"{name}.txt").write_text("Hello.")
    expected = {"anna/chapter/1": "anna", "anna/2": "anna", "ben/1": "ben", "3": "speaker"}
    (tmp_path / "notes.csv").write_text("who,what\n")
    assert {each.id: each.speaker for each in read_manifest(tmp_path).utterances} == expected
    assert build_folder_corpus(tmp_path, tmp_path / "out").speakers == ("anna", "ben", "speaker")
    assert {each.id: each.speaker for each in read_manifest(tmp_path / "out").utterances} == expected


def test_a_folder_of_pairs_in_another_script_is_an_error_with_the_flag(tmp_path):
    write_audio(tmp_path / "one.wav", tone(), 16000)
    (tmp_path / "one.txt").write_text("شماره یک", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"wrong script 1 \(Arabic letters.*--language fa"):
        build_folder_corpus(tmp_path)
    assert not (tmp_path / "metadata.csv").exists()


def test_text_files_in_a_code_page_are_read_and_announced(tmp_path):
    for number, text in enumerate(("شماره يک", "گربه روي ديوار")):
        write_audio(tmp_path / f"{number}.wav", tone(), 16000)
        (tmp_path / f"{number}.txt").write_bytes(text.encode("cp1256"))
    summary = build_folder_corpus(tmp_path, language="fa")
    assert (summary.clips, summary.rejected) == (2, ())
    assert "2 .txt files are not UTF-8 and were read as Windows-1256, e.g. شماره يک" in summary.notices[0]


@pytest.mark.timeout(60)
def test_a_pipe_as_a_text_file_is_rejected_without_waiting(tmp_path):
    for name in ("one", "two"):
        write_audio(tmp_path / f"{name}.wav", tone(), 16000)
    (tmp_path / "one.txt").write_text("One.")
    os.mkfifo(tmp_path / "two.txt")
    assert [each.detail for each in build_folder_corpus(tmp_path).rejected] == [
        "two.txt cannot be read: it is a pipe, not a regular file"
    ]


@pytest.mark.parametrize("copy_audio", [False, True])
def test_recordings_that_are_already_where_the_corpus_is_written_stay_there(tmp_path, copy_audio):
    source = make_pairs(tmp_path / "corpus" / "wavs")
    for _ in range(2):
        summary = build_folder_corpus(source, tmp_path / "corpus", language="fa", copy_audio=copy_audio)
        assert summary.clips == 2
        assert probe_audio(source / "one.wav") == (16000, 16000)


def test_a_folder_in_place_of_a_recording_is_one_clear_error(tmp_path):
    source = make_pairs(tmp_path / "pairs")
    (tmp_path / "out" / "wavs" / "one.wav").mkdir(parents=True)
    with pytest.raises(CorpusError, match="cannot be written"):
        build_folder_corpus(source, tmp_path / "out", language="fa")


def test_only_a_metadata_file_that_a_recipe_wrote_is_replaced(tmp_path):
    source, out = make_pairs(tmp_path / "pairs"), tmp_path / "out"
    build_folder_corpus(source, out, language="fa")
    build_folder_corpus(source, out, language="fa")
    (out / "rejected.csv").unlink()
    (out / "metadata.csv").write_text("mine|Mine")
    with pytest.raises(CorpusError, match=r"already has a metadata\.csv"):
        build_folder_corpus(source, out, language="fa")
    assert (out / "metadata.csv").read_text() == "mine|Mine"


def test_an_existing_metadata_file_is_not_overwritten(tmp_path):
    folder = make_pairs(tmp_path / "pairs")
    (folder / "metadata.csv").write_text("precious")
    with pytest.raises(CorpusError, match="already"):
        build_folder_corpus(folder)
    assert (folder / "metadata.csv").read_text() == "precious"


def test_a_folder_without_pairs_is_an_error(tmp_path):
    write_audio(tmp_path / "alone.wav", tone(), 16000)
    with pytest.raises(CorpusError, match="same name"):
        build_folder_corpus(tmp_path)


def test_a_link_to_itself_and_a_name_that_is_not_utf8_are_rejected(tmp_path):
    source = make_pairs(tmp_path / "in")
    before = build_folder_corpus(source, tmp_path / "before")
    (source / "loop.wav").symlink_to("loop.wav")
    names = {"loop"}
    if sys.platform == "linux":
        with open(os.fsencode(source) + b"/\xff.wav", "wb"):
            names.add("\udcff")
    after = build_folder_corpus(source, tmp_path / "after")
    assert after.clips == before.clips
    assert names <= {each.id for each in after.rejected}
