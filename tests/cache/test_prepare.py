"""From a folder to a cache, and again after every kind of change."""

import importlib.util
import os
import shutil

import numpy as np
import pytest
import soundfile

from myxtts.audio.clips import load_clip
from myxtts.audio.mel import mel_numpy
from myxtts.cache import update
from myxtts.cache.clip_table import open_cache
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.verify import find_problems, verify_and_fix_cache
from myxtts.corpus.folder_index import FolderIndex
from myxtts.corpus.utterance import summarize_rejections
from myxtts.errors import CacheError, CorpusError, TextError
from myxtts.runtime.workers import WorkerPool
from tests.cache.cache_builder import CLIPS, make_older
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone

needs_pyworld = pytest.mark.skipif(importlib.util.find_spec("pyworld") is None, reason="pyworld is not installed")


@pytest.fixture
def lines():
    return {
        f"clip{number:03d}": f"{word} one" for number, word in enumerate(["one", "two", "three", "four", "five", "six"])
    }


def prepare(folder, **changes):
    return prepare_cache(tiny_config(**changes), folder)


def contents(cache):
    """Id → (frames, tokens) of every clip."""
    return {
        clip_id: (np.array(cache.clip_frames(clip)), np.array(cache.clip_tokens(clip)))
        for clip, clip_id in enumerate(cache.ids)
    }


def test_a_record_is_the_mel_of_the_clip_and_the_tokens_of_its_text(corpus):
    cache = prepare(corpus)
    config = tiny_config()
    for clip, clip_id in enumerate(cache.ids):
        samples = load_clip(corpus / "wavs" / f"{clip_id}.wav", config, 16000)
        np.testing.assert_allclose(cache.clip_frames(clip), mel_numpy(samples, cache.mel), atol=1e-5)
        assert "".join(cache.symbols.symbols[token] for token in cache.clip_tokens(clip)) == cache.texts[clip]


def test_the_cache_has_the_front_end_that_read_its_texts(corpus, tmp_path):
    lexicon = tmp_path / "lexicon.tsv"
    lexicon.write_text("one\twʌn\n", encoding="utf-8")
    cache = prepare(corpus, text_symbols="phonemes", lexicon=str(lexicon))
    lexicon.unlink()  # what later stages ask is not read again
    assert cache.front_end.lexicon.entries == {"one": "wʌn"}
    assert cache.front_end.kind == cache.front_end_kind
    with pytest.raises(CacheError, match="has no front end"):
        _ = open_cache(cache.folder).front_end


def test_an_unchanged_corpus_is_not_written_again(corpus):
    header = next(corpus.glob(".myxtts/cache/*/cache.json"))
    before = header.stat().st_mtime_ns
    cache = prepare(corpus)
    assert header.stat().st_mtime_ns == before
    assert (cache.report.outcome.kept, cache.report.outcome.added) == (CLIPS, 0)


def test_an_unchanged_corpus_starts_no_worker(corpus, monkeypatch):
    def refuse(pool, workers):
        raise AssertionError("a worker was started")

    monkeypatch.setattr("myxtts.runtime.workers.WorkerPool.start", refuse)
    assert prepare(corpus).num_clips == CLIPS


def test_an_added_clip_is_all_that_is_prepared(corpus, lines):
    write_tone(corpus / "wavs" / "new.wav")
    write_metadata(corpus, lines | {"new": "a new one"})
    cache = prepare(corpus)
    assert (cache.report.outcome.kept, cache.report.outcome.added, cache.num_clips) == (CLIPS, 1, CLIPS + 1)


def test_a_removed_clip_leaves_the_others_as_they_are(corpus, lines):
    before = contents(prepare(corpus))
    del lines["clip002"]
    write_metadata(corpus, lines)
    cache = prepare(corpus)
    after = contents(cache)
    assert cache.report.outcome.removed == 1
    assert set(after) == set(lines)
    for clip_id, (frames, _) in after.items():
        np.testing.assert_array_equal(frames, before[clip_id][0])


def test_a_changed_recording_is_prepared_again(corpus):
    write_tone(corpus / "wavs" / "clip001.wav", seconds=1.1, pitch=500)
    cache = prepare(corpus)
    assert (cache.report.outcome.changed, cache.report.outcome.kept) == (1, CLIPS - 1)
    assert contents(cache)["clip001"][0].shape[0] > 60


def test_a_touched_recording_is_compared_and_kept(corpus):
    os.utime(corpus / "wavs" / "clip001.wav")
    assert prepare(corpus).report.outcome.kept == CLIPS
    assert prepare(corpus).report.outcome.kept == CLIPS


def test_a_recording_of_the_same_size_and_another_content_is_prepared_again(corpus):
    path = corpus / "wavs" / "clip001.wav"
    samples, rate = soundfile.read(path)
    soundfile.write(path, -samples[::-1], rate)
    os.utime(path, ns=(1, 1))
    assert prepare(corpus).report.outcome.changed == 1


@pytest.fixture
def jobs(monkeypatch):
    """(kind, item) of every job that workers are given from now on."""
    given = []
    run = WorkerPool.run

    def watched(pool, kind, items, *rest, **options):
        given.extend((kind, item) for item in items)
        return run(pool, kind, items, *rest, **options)

    monkeypatch.setattr(WorkerPool, "run", watched)
    return given


def test_a_changed_recording_is_not_phonemized_again(corpus, jobs):
    before = contents(prepare(corpus))
    write_tone(corpus / "wavs" / "clip001.wav", seconds=1.1)
    after = contents(prepare(corpus))
    assert [kind for kind, _ in jobs] == ["probe", "audio"]
    np.testing.assert_array_equal(after["clip001"][1], before["clip001"][1])


def test_a_touched_recording_with_a_new_text_keeps_its_frames(corpus, lines):
    before = contents(prepare(corpus))
    os.utime(corpus / "wavs" / "clip001.wav")
    write_metadata(corpus, lines | {"clip001": "other words"})
    cache = prepare(corpus)
    assert (cache.report.outcome.retexted, cache.report.outcome.changed) == (1, 0)
    np.testing.assert_array_equal(contents(cache)["clip001"][0], before["clip001"][0])
    assert prepare(corpus).report.outcome.kept == CLIPS


def test_each_new_clip_is_one_audio_job(tmp_path, jobs):
    make_corpus(tmp_path, 5)
    prepare(tmp_path)
    assert [kind for kind, _ in jobs] == ["probe"] * 5 + ["text"] + ["audio"] * 5


def test_the_corpus_is_read_once_and_an_unchanged_cache_is_opened_once(corpus, monkeypatch):
    calls = []
    walk, opened = FolderIndex.walk, update.open_cache
    monkeypatch.setattr(FolderIndex, "walk", lambda root: calls.append("walk") or walk(root))
    monkeypatch.setattr(update, "open_cache", lambda *args, **more: calls.append("open") or opened(*args, **more))
    assert prepare(corpus).num_clips == CLIPS
    assert calls == ["walk", "open"]


def test_license_and_attribution_are_kept_in_the_cache(corpus):
    (corpus / "LICENSE").write_text("CC0")
    (corpus / "ATTRIBUTION.md").write_text("By Anna.")
    cache = prepare(corpus)
    assert cache.report.outcome.kept == CLIPS
    for each in (cache, open_cache(cache.folder)):
        assert (each.license, each.attribution, each.data_folder) == ("CC0", "By Anna.", corpus)


def test_a_cache_of_0_1_0_is_continued_and_gets_what_it_lacks(corpus, jobs):
    before = prepare(corpus)
    (corpus / "LICENSE").write_text("CC0")
    make_older(before.folder)
    cache = prepare(corpus)
    assert (cache.report.outcome.kept, [kind for kind, _ in jobs]) == (CLIPS, ["audio"] * CLIPS)
    assert (open_cache(cache.folder).license, cache.content_id) == ("CC0", before.content_id)
    assert (cache.bandwidths > 0).all()
    jobs.clear()
    assert (prepare(corpus).report.outcome.kept, jobs) == (CLIPS, [])


def test_a_cache_of_0_1_0_of_which_many_clips_were_removed_is_continued(corpus, lines):
    before = contents(prepare(corpus))
    make_older(prepare(corpus).folder)
    write_metadata(corpus, dict(list(lines.items())[:2]))
    cache = prepare(corpus)
    assert cache.num_rows == 1 + int(cache.frame_counts.sum())
    for clip_id, (frames, _) in contents(cache).items():
        np.testing.assert_array_equal(frames, before[clip_id][0])


@needs_pyworld
def test_the_sound_of_clips_is_added_to_a_cache_and_survives_later_changes(corpus, lines):
    before = prepare(corpus)
    cache = prepare_cache(tiny_config(), corpus, with_sound=True)
    assert cache.content_id == before.content_id
    assert cache.report.outcome.kept == CLIPS
    write_metadata(corpus, lines | {"clip001": "other words"})
    write_tone(corpus / "wavs" / "clip002.wav", seconds=0.9)
    later = prepare_cache(tiny_config(), corpus, with_sound=True)
    for clip in range(CLIPS):
        assert len(later.clip_samples(clip)) // later.mel.hop_length + 1 == later.frame_counts[clip]
        assert len(later.clip_pitch(clip)) == later.frame_counts[clip]
        mel = mel_numpy(later.clip_samples(clip).astype(np.float32) / 32767, later.mel)
        np.testing.assert_allclose(np.exp(mel), np.exp(later.clip_frames(clip)), atol=2e-3)
    np.testing.assert_array_equal(later.clip_samples(1), cache.clip_samples(1))
    assert find_problems(later.folder)[0] == []


@needs_pyworld
def test_a_clip_that_changes_while_no_sound_is_asked_for_has_none_until_it_is(corpus):
    prepare_cache(tiny_config(), corpus, with_sound=True)
    write_tone(corpus / "wavs" / "clip002.wav", seconds=0.9)
    without = prepare(corpus)
    assert [len(without.clip_samples(clip)) > 0 for clip in range(CLIPS)] == [clip != 2 for clip in range(CLIPS)]
    assert len(without.clip_pitch(2)) == 0
    assert (prepare_cache(tiny_config(), corpus, with_sound=True).sample_starts > 0).all()


def test_a_changed_text_decodes_nothing(corpus, lines):
    before = contents(prepare(corpus))
    write_metadata(corpus, lines | {"clip001": "other words"})
    cache = prepare(corpus)
    after = contents(cache)
    assert (cache.report.outcome.retexted, cache.report.outcome.changed) == (1, 0)
    np.testing.assert_array_equal(after["clip001"][0], before["clip001"][0])
    assert len(after["clip001"][1]) == len("other words")


def test_new_symbols_are_appended_and_old_tokens_stay(corpus, lines):
    before = prepare(corpus)
    write_metadata(corpus, lines | {"clip001": "zebra"})
    after = prepare(corpus)
    assert after.symbols.symbols[: len(before.symbols)] == before.symbols.symbols
    assert set(after.symbols.symbols) - set(before.symbols.symbols) == {"a", "b", "z"}


def test_a_clip_that_is_now_held_out_only_changes_sides(corpus, lines):
    write_metadata(corpus, {"clip003": lines.pop("clip003")}, "metadata_eval.csv")
    write_metadata(corpus, lines, "metadata_train.csv")
    cache = prepare(corpus)
    assert [cache.ids[clip] for clip in np.flatnonzero(cache.is_validation)] == ["clip003"]
    assert cache.num_clips == CLIPS


def test_a_renamed_speaker_leaves_no_trace_of_the_old_name(corpus, lines):
    rows = "".join(f"{clip_id}|{text}|{text}|ann|en\n" for clip_id, text in lines.items())
    (corpus / "metadata.csv").write_text("id|text|normalised|speaker|language\n" + rows, encoding="utf-8")
    cache = prepare(corpus)
    assert cache.report.outcome.kept == CLIPS
    assert cache.speakers == ("ann",)


def test_dead_space_is_given_back_once_it_is_a_large_fraction(corpus, lines):
    before = contents(prepare(corpus))
    kept = dict(list(lines.items())[:3])
    write_metadata(corpus, kept)
    cache = prepare(corpus)
    assert cache.num_rows == 1 + int(cache.frame_counts.sum())
    assert len(list(cache.folder.glob("frames-*.f32"))) == 1
    for clip_id, (frames, tokens) in contents(cache).items():
        np.testing.assert_array_equal(frames, before[clip_id][0])
        np.testing.assert_array_equal(tokens, before[clip_id][1])


def test_other_settings_get_a_cache_of_their_own(corpus):
    usual, loud = prepare(corpus), prepare(corpus, loudness_db=-10.0)
    assert usual.folder != loud.folder
    assert usual.num_clips == loud.num_clips == CLIPS


def test_limits_of_length_do_not_touch_the_cache(corpus):
    usual, strict = prepare(corpus), prepare(corpus, max_text_length=7)
    assert strict.folder == usual.folder
    assert strict.num_clips == usual.num_clips
    assert strict.report.rejections == ()


def test_recordings_at_high_rates_become_a_voice_at_24_kilohertz_together(tmp_path):
    lines = make_corpus(tmp_path, 5)  # two at 16 kHz: the most frequent single rate
    for clip_id, rate in zip(list(lines)[:3], (22050, 44100, 48000), strict=True):
        write_tone(tmp_path / "wavs" / f"{clip_id}.wav", rate=rate)
    cache = prepare(tmp_path)
    assert cache.mel.sample_rate == 24000
    assert sorted(cache.report.recorded_rates) == [16000, 16000, 22050, 44100, 48000]


def test_automatic_sample_rate_is_the_most_frequent_one(tmp_path):
    lines = make_corpus(tmp_path, 2)
    for name in ("slow1", "slow2", "slow3"):
        write_tone(tmp_path / "wavs" / f"{name}.wav", rate=8000)
    write_metadata(tmp_path, lines | dict.fromkeys(("slow1", "slow2", "slow3"), "two one"))
    assert prepare(tmp_path).mel.sample_rate == 8000
    assert prepare(tmp_path, sample_rate=16000).mel.sample_rate == 16000


def test_unusable_clips_are_rejected_with_their_reasons(tmp_path):
    lines = make_corpus(tmp_path, 3)
    wavs = tmp_path / "wavs"
    (wavs / "empty.wav").write_bytes(b"")
    (wavs / "text.wav").write_text("this is not a recording")
    soundfile.write(wavs / "silent.wav", np.zeros(16000), 16000)
    write_tone(wavs / "short.wav", seconds=0.1)
    write_tone(wavs / "crowded.wav", seconds=0.5)
    write_tone(wavs / "mute.wav")
    cut = (wavs / "clip000.wav").read_bytes()
    (wavs / "cut.wav").write_bytes(cut[: len(cut) // 2])
    bad = dict.fromkeys(("empty", "text", "silent", "short", "cut", "missing"), "one two")
    write_metadata(
        tmp_path, lines | bad | {"crowded": "a text that is far too long to be said in this time", "mute": "☃"}
    )
    cache = prepare(tmp_path)
    reasons = {rejection.id: rejection.reason for rejection in cache.report.rejections}
    assert reasons == {
        "empty": "empty file",
        "text": "not audio",
        "silent": "silent",
        "short": "too short",
        "cut": "cut off",
        "missing": "missing",
        "crowded": "more tokens than frames",
        "mute": "empty text",
    }
    assert cache.num_clips == 3
    table = cache.report.rejected_path.read_text(encoding="utf-8")
    assert all(clip_id in table for clip_id in reasons)


def test_rejected_clips_are_not_decoded_again_until_they_change(tmp_path, monkeypatch):
    lines = make_corpus(tmp_path, 2)
    (tmp_path / "wavs" / "bad.wav").write_text("nothing")
    write_metadata(tmp_path, lines | {"bad": "two"})
    assert prepare(tmp_path).num_clips == 2
    with monkeypatch.context() as patch:
        decoded = []
        run_once = WorkerPool._run_once

        def watched(pool, kind, items, *rest):
            decoded.extend(items if kind in ("audio", "text") else ())
            return run_once(pool, kind, items, *rest)

        patch.setattr(WorkerPool, "_run_once", watched)
        assert "not audio 1" in summarize_rejections(prepare(tmp_path).report.rejections)
        assert decoded == []
    write_tone(tmp_path / "wavs" / "bad.wav")
    cache = prepare(tmp_path)
    assert (cache.num_clips, cache.report.rejections) == (3, ())


def test_nothing_usable_is_an_error_that_counts_the_reasons(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    write_metadata(tmp_path, {"a": "one"})
    with pytest.raises(CorpusError, match="silent 1"):
        prepare(tmp_path)


def test_unknown_characters_are_counted(tmp_path):
    lines = make_corpus(tmp_path, 2)
    write_metadata(tmp_path, lines | {"clip001": "two ☃☃ one"})
    assert prepare(tmp_path).report.unknown_symbols == {"☃": 2}
    assert prepare(tmp_path).report.unknown_symbols == {"☃": 2}, "an unchanged corpus still reports them"


def test_a_corpus_that_cannot_fit_the_disk_is_refused_before_it_starts(tmp_path, monkeypatch):
    make_corpus(tmp_path, 2)
    monkeypatch.setattr("myxtts.cache.update.shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(9, 9, 9))
    with pytest.raises(CacheError, match="free"):
        prepare(tmp_path)
    (folder,) = tmp_path.glob(".myxtts/cache/*/")
    assert not [path.name for path in folder.iterdir() if not path.name.startswith("lock")]
    with pytest.raises(CacheError, match="no prepared cache"):
        verify_and_fix_cache(folder)


def test_a_validation_folder_of_its_own_is_held_out(tmp_path):
    make_corpus(tmp_path / "train", 2)
    make_corpus(tmp_path / "other", 3)
    cache = prepare(tmp_path / "train", val_data=str(tmp_path / "other"))
    assert cache.num_clips == 5
    assert int(cache.is_validation.sum()) == 3
    assert len(set(cache.ids)) == 5


def test_the_order_of_clips_is_that_of_the_metadata_with_several_workers(tmp_path):
    lines = make_corpus(tmp_path, 12)
    cache = prepare_cache(tiny_config(validation_share=0.01), tmp_path, workers=2)
    trained = [cache.ids[clip] for clip in np.flatnonzero(~cache.is_validation)]
    assert trained == [clip_id for clip_id in lines if clip_id in set(trained)]


def test_the_cache_goes_where_the_configuration_says(tmp_path):
    make_corpus(tmp_path / "one", 1)
    make_corpus(tmp_path / "two", 1)
    first = prepare(tmp_path / "one", cache_dir=str(tmp_path / "caches"))
    second = prepare(tmp_path / "two", cache_dir=str(tmp_path / "caches"))
    assert first.folder.is_relative_to(tmp_path / "caches")
    assert first.folder != second.folder
    assert not (tmp_path / "one" / ".myxtts").exists()


def test_letters_in_place_of_phonemes_are_announced(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    make_corpus(tmp_path, 1)
    lines = []
    prepare_cache(tiny_config(text_symbols="auto", language="de"), tmp_path, announce=lines.append)
    assert any("letters" in line and "phonemes" in line for line in lines), lines


def test_phonemes_that_are_not_installed_are_an_error_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    make_corpus(tmp_path, 1)
    with pytest.raises(TextError, match="espeak-ng"):
        prepare(tmp_path, text_symbols="espeak")
