"""A corpus that is decoded while training: the same clips are used and rejected as by `prepare`."""

import numpy as np
import pytest
import soundfile

from myxtts.audio.mel import MelSpec
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.recordings import open_recordings
from myxtts.errors import CorpusError
from tests.cache.sabotage import sabotage_workers
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone


def test_recordings_that_cannot_be_decoded_while_training_are_listed(tmp_path):
    make_corpus(tmp_path, count=4)
    samples, rate = soundfile.read(tmp_path / "wavs" / "clip001.wav")
    soundfile.write(tmp_path / "wavs" / "clip001.wav", samples, rate, subtype="FLOAT")
    write_tone(tmp_path / "wavs" / "clip002.wav", rate=22050)
    with pytest.raises(CorpusError, match="2 recordings") as caught:
        open_recordings(tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime"))
    assert "clip001.wav" in str(caught.value)
    assert "clip002.wav" in str(caught.value)
    assert "clip000.wav" not in str(caught.value)


def test_what_prepare_rejects_is_rejected_with_its_reason(tmp_path, monkeypatch):
    lines = make_corpus(tmp_path, count=3)
    wavs = tmp_path / "wavs"
    soundfile.write(wavs / "silent.wav", np.zeros(16000), 16000)
    blip = np.zeros(16000)
    blip[8000:8800] = 0.5 * np.sin(np.arange(800))
    soundfile.write(wavs / "blip.wav", blip, 16000)  # a second long, but 0.11 s after trimming
    padded = np.zeros(64000)
    padded[20000:30000] = 0.3 * np.sin(np.arange(10000) / 9)
    soundfile.write(wavs / "crowded.wav", padded, 16000)  # long enough for its text only with its silence
    (wavs / "empty.wav").write_bytes(b"")
    (wavs / "cut.wav").write_bytes((wavs / "clip000.wav").read_bytes()[:5000])
    write_tone(wavs / "mute.wav")
    write_tone(wavs / "unspeakable.wav")
    bad = dict.fromkeys(("silent", "blip", "empty", "cut"), "one two")
    crowded = "a text that needs more frames than are left"
    write_metadata(tmp_path, lines | bad | {"crowded": crowded, "mute": "☃", "unspeakable": "cannot be said"})
    sabotage_workers(
        monkeypatch,
        tmp_path / "sabotage",
        "from myxtts.errors import TextError\n"
        "from myxtts.text.tokenizer import FrontEnd\n"
        "symbols_of = FrontEnd.symbols_of\n"
        "def failing(self, texts, language):\n"
        "    if 'cannot be said' in texts:\n"
        "        raise TextError('no such sound')\n"
        "    return symbols_of(self, texts, language)\n"
        "FrontEnd.symbols_of = failing\n",
    )
    config = tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime")
    table = open_recordings(config)
    cache = prepare_cache(config)
    assert {one.id: one.reason for one in table.rejections} == {
        "silent": "silent",
        "blip": "too short",
        "empty": "empty file",
        "cut": "cut off",
        "crowded": "more tokens than frames",
        "mute": "empty text",
        "unspeakable": "text cannot be spoken",
    }
    assert set(table.rejections) == set(cache.report.rejections)
    lengths = dict(zip(cache.ids, cache.frame_counts.tolist(), strict=True))
    assert dict(zip(table.ids, table.frame_counts.tolist(), strict=True)) == lengths
    assert table.rejection_report()[0].startswith("7 ")
    assert any("blip" in line and "0.3" in line for line in table.rejection_report())


def test_recordings_decoded_while_training_keep_their_rate(tmp_path):
    for clip_id in make_corpus(tmp_path, count=2):
        write_tone(tmp_path / "wavs" / f"{clip_id}.wav", rate=22050)
    table = open_recordings(tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime"))
    assert table.mel == MelSpec.from_config(tiny_config(), 22050)


def test_the_content_id_follows_the_clips_and_their_texts(tmp_path):
    lines = make_corpus(tmp_path, count=3)
    config = tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime")
    before = open_recordings(config).content_id
    assert open_recordings(config).content_id == before
    write_metadata(tmp_path, lines | {"clip001": "nine ten"})
    assert open_recordings(config).content_id != before


def test_a_corpus_without_usable_clips_is_an_error(tmp_path):
    (tmp_path / "wavs").mkdir()
    soundfile.write(tmp_path / "wavs" / "silent.wav", np.zeros(16000), 16000)
    write_metadata(tmp_path, {"silent": "one two"})
    with pytest.raises(CorpusError, match=r"No clip of .* can be used: 1 rejected: silent 1"):
        open_recordings(tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime"))
