"""Several corpora in one cache: the same frames and symbols, one numbering, and nothing of speakers that are held out."""

import numpy as np
import pytest

from myxtts.cache.prepare import prepare_cache
from myxtts.cache.verify import verify_joint_cache
from myxtts.errors import ConfigError, CorpusError
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_tone


def add_corpus(folder, rows, rate=16000, license=""):
    """Clips with the columns id, text, speaker, language."""
    for number, row in enumerate(rows):
        write_tone(folder / "wavs" / f"{row[0]}.wav", 0.8, 200 + 20 * number, rate, seed=number)
    lines = ["id|text|speaker|language", *("|".join(row) for row in rows)]
    (folder / "metadata.csv").write_text("\n".join(lines), "utf-8")
    if license:
        (folder / "LICENSE").write_text(license)


@pytest.fixture
def corpora(tmp_path):
    add_corpus(
        tmp_path / "english",
        [("a", "one two", "ann", "en"), ("b", "three", "bob", "en"), ("c", "four five", "ann", "en")],
        license="SPDX-License-Identifier: CC0-1.0\n\nNo rights reserved.",
    )
    add_corpus(
        tmp_path / "persian",
        [("a", "سلام دنیا", "ann", "fa"), ("d", "خوب", "sara", "fa")],
        8000,
        "MIT License\n\nFree.",
    )
    return tmp_path


def joint_config(folder, **changes):
    return tiny_config(corpora=[{"folder": str(folder / name)} for name in ("english", "persian")], **changes)


def clip_by_id(cache, clip_id):
    return list(cache.ids).index(clip_id)


def test_every_clip_keeps_its_frames_and_symbols(corpora):
    joint = prepare_cache(joint_config(corpora))
    for name in ("english", "persian"):
        alone = prepare_cache(tiny_config(sample_rate=16000), corpora / name)
        for clip, clip_id in enumerate(alone.ids):
            other = clip_by_id(joint, f"{name}/a" if clip_id == "a" else clip_id)
            np.testing.assert_array_equal(joint.clip_frames(other), alone.clip_frames(clip))
            symbols = [alone.symbols.symbols[token] for token in alone.clip_tokens(clip)]
            assert [joint.symbols.symbols[token] for token in joint.clip_tokens(other)] == symbols
            assert joint.languages[joint.language_numbers[other]] == alone.languages[alone.language_numbers[clip]]
            assert joint.texts[other] == alone.texts[clip]


def test_bandwidth_noise_and_sound_belong_to_the_clips(corpora):
    joint = prepare_cache(joint_config(corpora), with_sound=True)
    alone = prepare_cache(tiny_config(sample_rate=16000), corpora / "persian")
    clip, other = clip_by_id(alone, "d"), clip_by_id(joint, "d")
    assert (joint.bandwidths[other], joint.snrs[other]) == (alone.bandwidths[clip], alone.snrs[clip])
    np.testing.assert_array_equal(joint.clip_samples(other), alone.clip_samples(clip))
    np.testing.assert_array_equal(joint.clip_pitch(other), alone.clip_pitch(clip))
    assert all(report.is_clean for report in verify_joint_cache(joint_config(corpora)))


def test_a_joint_cache_without_sound_gets_it_when_it_is_wanted(corpora):
    assert not prepare_cache(joint_config(corpora)).sample_counts.any()
    assert prepare_cache(joint_config(corpora), with_sound=True).sample_counts.all()


def test_only_speakers_of_the_same_name_get_that_of_their_corpus(corpora):
    joint = prepare_cache(joint_config(corpora))
    assert joint.speakers == ("english/ann", "bob", "persian/ann", "sara")
    assert joint.speaker_corpora == ("english", "english", "persian", "persian")
    speaker = joint.speaker_numbers[clip_by_id(joint, "d")]
    assert joint.speakers[speaker] == "sara"


def test_the_highest_rate_of_the_corpora_is_that_of_the_voice(corpora):
    assert prepare_cache(joint_config(corpora)).mel.sample_rate == 16000


def test_licenses_of_all_corpora_are_collected(corpora):
    joint = prepare_cache(joint_config(corpora))
    assert joint.license.startswith("License: CC0-1.0\nLicense: MIT License\n\n")
    assert "No rights reserved." in joint.license
    assert "- persian: MIT License" in joint.attribution


def test_letters_in_place_of_phonemes_are_announced_once(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        make_corpus(folder, 1)
    lines = []
    config = tiny_config(
        text_symbols="auto", language="de", corpora=[{"folder": str(folder), "language": "de"} for folder in folders]
    )
    prepare_cache(config, announce=lines.append)
    assert len([line for line in lines if "letters instead of phonemes" in line]) == 1, lines


def test_held_out_speakers_are_not_in_the_cache(corpora):
    lines = []
    config = joint_config(corpora, held_out_speakers=["persian/ann", "bob"])
    joint = prepare_cache(config, announce=lines.append)
    assert joint.speakers == ("ann", "sara")
    assert list(joint.ids) == ["a", "c", "d"]
    assert "Held out, never trained on: persian/ann, bob (2 clips)" in lines


def test_a_held_out_speaker_that_does_not_exist_is_an_error(corpora):
    with pytest.raises(CorpusError, match="Did you mean sara"):
        prepare_cache(joint_config(corpora, held_out_speakers=["sarah"]))


def test_one_corpus_can_hold_speakers_out(corpora):
    joint = prepare_cache(tiny_config(train_data=str(corpora / "english"), held_out_speakers=["bob"]))
    assert joint.speakers == ("ann",)


def test_an_unchanged_joint_cache_is_not_written_again(corpora):
    first = prepare_cache(joint_config(corpora))
    again = prepare_cache(joint_config(corpora))
    assert again.header["generation"] == 1
    assert (again.folder, again.content_id) == (first.folder, first.content_id)


def test_a_changed_part_is_joined_again_with_the_old_symbols_first(corpora):
    before = prepare_cache(joint_config(corpora))
    add_corpus(corpora / "english", [("a", "one two", "ann", "en"), ("e", "quick box", "bob", "en")])
    after = prepare_cache(joint_config(corpora))
    assert list(after.ids) == ["english/a", "e", "persian/a", "d"]
    assert after.symbols.symbols[: len(before.symbols)] == before.symbols.symbols
    assert "q" in after.symbols.symbols


def test_verify_finds_and_repairs_flipped_bits_of_part_and_joint_cache(corpora):
    config = joint_config(corpora)
    joint = prepare_cache(config)
    assert all(report.is_clean for report in verify_joint_cache(config))
    for frames_path in (joint.frames_path, next((corpora / "persian").rglob("frames-*.f32"))):
        content = bytearray(frames_path.read_bytes())
        content[-3] ^= 1
        frames_path.write_bytes(content)
    assert [report.is_clean for report in verify_joint_cache(config)] == [True, False, False]
    assert [report.is_repaired for report in verify_joint_cache(config, fix=True)] == [False, True, True]
    assert all(report.is_clean for report in verify_joint_cache(config))


def test_settings_that_cannot_go_together_are_explained(tmp_path):
    from myxtts.config.load import parse_config

    make_corpus(tmp_path / "one")
    for data, message in (
        ({"corpora": ["one", "x/one"]}, "have the name 'one'"),
        ({"corpora": ["one", "two"], "train_data": "three"}, "one of the two"),
        ({"corpora": ["one", "two"], "preprocessing_mode": "runtime"}, "Use precompute"),
        ({"balance": 0.5, "plan": "buckets"}, "packed or fixed"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_config({"data": data})
