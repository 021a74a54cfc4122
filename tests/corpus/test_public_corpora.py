"""Clones of public repositories, made up in small, become corpora that are read back with speakers, texts and terms."""

import numpy as np
import pytest

from myxtts.audio.files import read_audio, write_audio
from myxtts.corpus.corpus import read_manifest
from myxtts.corpus.public_corpora import (
    READABLE,
    build_audiomnist_corpus,
    build_freeswitch_corpus,
    build_public_corpus,
)
from myxtts.errors import CorpusError

RATE = 16000


def tone(seconds=0.5, level=0.3):
    return (level * np.sin(np.arange(int(seconds * RATE)) * 0.1)).astype(np.float32)


def recipe(name):
    return next(each for each in READABLE if each.name == name)


@pytest.fixture
def common_voice(tmp_path):
    folder = tmp_path / "clone"
    (folder / "wavs").mkdir(parents=True)
    for name in ("one", "two", "three"):
        write_audio(folder / "wavs" / f"{name}.wav", tone(), RATE)
    rows = ["id|text|speaker|confidence", "one|سلام دنیا|spk001|1.0", "two|خوبی|spk012|1.0", "three|بله|spk001|1.0"]
    (folder / "metadata.csv").write_text("\n".join(rows), "utf-8")
    (folder / "metadata_eval.csv").write_text("id|text|speaker|confidence\nthree|بله|spk001|1.0\n", "utf-8")
    (folder / "LICENSE").write_text("Public domain.")
    return folder


def test_held_out_clips_of_a_repository_stay_held_out(common_voice, tmp_path):
    summary = build_public_corpus(recipe("cv-fa"), common_voice, tmp_path / "out")
    assert (summary.clips, summary.speakers, summary.clips_by_language) == (3, ("fa-1", "fa-12"), {"fa": 3})
    assert [one.id for one in read_manifest(tmp_path / "out", "en", "validation").utterances] == ["three"]
    assert [one.id for one in read_manifest(tmp_path / "out", "en", "train").utterances] == ["one", "two"]


def test_license_and_attribution_name_the_source(common_voice, tmp_path):
    build_public_corpus(recipe("cv-fa"), common_voice, tmp_path / "out")
    manifest = read_manifest(tmp_path / "out")
    assert manifest.license.startswith("SPDX-License-Identifier: CC0-1.0\n\nPublic domain.")
    assert "Mozilla Common Voice" in manifest.attribution
    assert "CC0-1.0" in manifest.attribution


def test_texts_as_they_are_read_become_the_normalized_column(tmp_path):
    folder = tmp_path / "clone"
    (folder / "wavs").mkdir(parents=True)
    for name in ("one", "two"):
        write_audio(folder / "wavs" / f"{name}.wav", tone(), RATE)
    (folder / "metadata.csv").write_text("id|text\none|کلید یک\ntwo|صفر\n", "utf-8")
    (folder / "metadata_ezafe.csv").write_text("id|text\none|کلیدِ یک\n", "utf-8")
    build_public_corpus(recipe("voiz-fa"), folder, tmp_path / "out")
    lines = (tmp_path / "out" / "metadata.csv").read_text("utf-8").splitlines()
    assert lines[1:] == ["one|کلید یک|کلیدِ یک|voiz|fa", "two|صفر|صفر|voiz|fa"]
    assert [one.text for one in read_manifest(tmp_path / "out", "fa").utterances] == ["کلیدِ یک", "صفر"]


def test_prompts_get_the_texts_of_the_phrase_file(tmp_path):
    folder = tmp_path / "sounds" / "en" / "us" / "callie" / "ivr" / "48000"
    folder.mkdir(parents=True)
    for name in ("yes", "tone", "untold"):
        write_audio(folder / f"{name}.wav", tone(), RATE)
    (tmp_path / "phrase_en.xml").write_text(
        '<language><en><ivr><prompt phrase="Yes, please. (aside)" filename="yes.wav"/>'
        '<prompt phrase="NULL" filename="tone.wav" type="tone"/></ivr></en></language>'
    )
    summary = build_freeswitch_corpus(tmp_path / "sounds", tmp_path / "out", tmp_path, ["callie"])
    (clip,) = read_manifest(tmp_path / "out").utterances
    assert (clip.id, clip.text, clip.speaker, clip.language) == ("callie_ivr_yes", "Yes, please.", "callie", "en")
    assert sorted(each.reason for each in summary.rejected) == ["empty text", "not speech"]


@pytest.mark.parametrize("name", ["phrase_pt.xml", "phrase_pt_BR.xml"])
def test_the_phrase_file_may_name_the_region(tmp_path, name):
    folder = tmp_path / "sounds" / "pt" / "BR" / "karina" / "ivr" / "48000"
    folder.mkdir(parents=True)
    write_audio(folder / "sim.wav", tone(), RATE)
    (tmp_path / name).write_text(
        '<language><pt_BR><ivr><prompt phrase="Sim." filename="sim.wav"/></ivr></pt_BR></language>'
    )
    build_freeswitch_corpus(tmp_path / "sounds", tmp_path / "out", tmp_path, ["karina"])
    (clip,) = read_manifest(tmp_path / "out").utterances
    assert (clip.text, clip.speaker, clip.language) == ("Sim.", "karina", "pt-br")


@pytest.mark.parametrize("name", ["kerstin", "nathalie"])
def test_recordings_are_taken_from_the_folder_of_verified_ones(tmp_path, name):
    for folder, kind in (("audio", "webm"), ("verified", "flac")):
        (tmp_path / "clone" / folder).mkdir(parents=True)
        write_audio(tmp_path / "clone" / folder / "one.flac", tone(), RATE)
        (tmp_path / "clone" / folder / "one.flac").rename(tmp_path / "clone" / folder / f"one.{kind}")
    (tmp_path / "clone" / "metadata.csv").write_text("one|Ja!\n")
    (tmp_path / "clone" / "verified" / "metadata.csv").write_text("one|ja\n")
    (tmp_path / "clone" / "LICENSE").write_text("Public domain.")
    summary = build_public_corpus(recipe(name), tmp_path / "clone", tmp_path / "out")
    assert (summary.clips, summary.speakers, len(summary.rejected)) == (1, (name,), 0)
    manifest = read_manifest(tmp_path / "out")
    assert (manifest.utterances[0].path.name, manifest.utterances[0].text) == ("one.flac", "Ja!")
    assert "Public domain." in manifest.license


def test_a_missing_phrase_file_is_explained(tmp_path):
    folder = tmp_path / "sounds" / "en" / "us" / "callie" / "ivr" / "48000"
    folder.mkdir(parents=True)
    write_audio(folder / "yes.wav", tone(), RATE)
    with pytest.raises(CorpusError, match="--phrases"):
        build_freeswitch_corpus(tmp_path / "sounds", tmp_path / "out", tmp_path / "nowhere", ["callie"])


def test_digits_of_one_take_are_joined_in_the_order_of_the_text(tmp_path):
    folder = tmp_path / "clone" / "data" / "07"
    folder.mkdir(parents=True)
    for digit in range(10):
        write_audio(folder / f"{digit}_07_0.wav", tone(0.1 + 0.01 * digit), RATE)
    summary = build_audiomnist_corpus(tmp_path / "clone", tmp_path / "out", takes=1, digits_per_clip=5)
    clips = read_manifest(tmp_path / "out").utterances
    assert [one.text for one in clips] == ["zero, one, two, three, four", "five, six, seven, eight, nine"]
    assert {one.speaker for one in clips} == {"mnist-07"}
    assert len(read_audio(clips[1].path)[0]) == round((5 * 0.1 + 0.01 * (5 + 6 + 7 + 8 + 9)) * RATE)
    assert summary.seconds == pytest.approx(1.45)
