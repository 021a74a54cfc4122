"""Exported voices are spoken by the real programs. `make test-slow` installs them."""

import re

import numpy as np
import pytest

from myxtts.audio.mel import mel_numpy
from myxtts.export.piper import export_piper
from myxtts.export.sherpa import BLANK, export_sherpa
from myxtts.synthesis.bundled import bundled_voice
from myxtts.synthesis.engine import noise_of
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice
from tests.synthesis.tiny_voice import write_voice

pytestmark = pytest.mark.slow


def assert_same_sound(spoken, voice, expected):
    """The samples of a program are those of our vocoder but for its noise, which the exported graph draws itself.

    Two noises of our own vocoder differ by 0.16 in the mean of their log-mels; speech that is one frame late by 0.43.
    """
    assert len(spoken) == len(expected)
    difference = mel_numpy(np.asarray(spoken, np.float32), voice.mel) - mel_numpy(expected, voice.mel)
    assert np.mean(np.abs(difference)) < 0.22


def spoken_by_us(voice, ids):
    """Samples without noise in the decoder, and the frames of each symbol."""
    sampling = voice.sampling(SpeechOptions(temperature=0.0))
    encoded = voice.engine.encode(ids, sampling)
    noise = noise_of(0, 0, int(encoded.frames.sum()), voice.mel.n_mels)
    return np.clip(voice.vocoder(voice.engine.decode(encoded, noise, sampling)), -1, 1), encoded.frames


def test_piper_speaks_the_bundled_voice_as_we_do(tmp_path, caplog):
    piper = pytest.importorskip("piper")
    folder = export_piper(bundled_voice(), tmp_path / "kathleen")
    loaded = piper.PiperVoice.load(folder / "kathleen.onnx")
    settings = piper.SynthesisConfig(noise_scale=0.0, normalize_audio=False)
    (chunk,) = loaded.synthesize("Thank you for calling the third bird.", settings, include_alignments=True)
    assert "".join(chunk.phonemes) == "θˈæŋk juː fɔːɹ kˈɔːlɪŋ ðə θˈɜːd bˈɜːd."
    assert "Missing phoneme" not in caplog.text

    voice = Voice.load()
    ids = [each for each in chunk.phoneme_ids if 1 < each < len(voice.description.symbols)]
    assert "".join(voice.description.symbols[each] for each in ids) == "θˈæŋk ju fɔɹ kˈɔlɪŋ ðə θˈɝd bˈɝd."
    expected, frames = spoken_by_us(voice, ids)
    samples = [each.num_samples for each in chunk.phoneme_alignments]
    assert sum(samples) == frames.sum() * voice.mel.hop_length
    assert_same_sound(chunk.audio_float_array, voice, expected)


def sherpa_voice(sherpa_onnx, **kind):
    config = sherpa_onnx.OfflineTtsConfig(model=sherpa_onnx.OfflineTtsModelConfig(**kind, num_threads=1))
    assert config.validate()
    return sherpa_onnx.OfflineTts(config)


@pytest.fixture(scope="module")
def english_lexicon(tmp_path_factory):
    """The bundled voice with its whole lexicon, for sherpa-onnx."""
    return export_sherpa(bundled_voice(), tmp_path_factory.mktemp("sherpa") / "kathleen")


# "to" and "the" would be pronounced in another way inside a sentence than alone.
@pytest.mark.parametrize(
    "text",
    [
        "Please enter your password, press pound.",
        "Merkel’s GPU didn't upvote UEFA.",
        "Some well-known Wikipedia photos.",
    ],
    ids=["prompt", "frequent words", "hyphen"],
)
def test_sherpa_speaks_the_words_of_our_lexicon_as_we_do(text, english_lexicon):
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    matcha = sherpa_onnx.OfflineTtsMatchaModelConfig(
        acoustic_model=str(english_lexicon / "model.onnx"),
        vocoder="",
        lexicon=str(english_lexicon / "lexicon.txt"),
        tokens=str(english_lexicon / "tokens.txt"),
        noise_scale=0.0,
    )
    settings = sherpa_onnx.GenerationConfig()
    settings.silence_scale = 1.0
    audio = sherpa_voice(sherpa_onnx, matcha=matcha).generate(text, settings)
    voice = Voice.load()
    lexicon = dict(line.split(f" {BLANK} ", 1) for line in (english_lexicon / "lexicon.txt").read_text().splitlines())
    parts = re.findall(r"([a-z'’]+)([-,. ]*)", text.lower())
    symbols = "".join(lexicon[word].replace(" ", "") + marks.replace("-", "") for word, marks in parts)
    expected, _ = spoken_by_us(voice, [voice.tokenizer.symbols.id_of[symbol] for symbol in symbols])
    assert audio.sample_rate == voice.sample_rate
    assert_same_sound(audio.samples, voice, expected)


def test_sherpa_speaks_letters(tmp_path):
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    voice = write_voice(tmp_path / "voice")
    folder = export_sherpa(voice, tmp_path / "out")
    vits = sherpa_onnx.OfflineTtsVitsModelConfig(
        model=str(folder / "model.onnx"), lexicon="", tokens=str(folder / "tokens.txt")
    )
    audio = sherpa_voice(sherpa_onnx, vits=vits).generate("hello there", sid=0, speed=1.0)
    expected = Voice.load(voice).synthesize("hello there", pause=0).seconds
    assert len(audio.samples) / audio.sample_rate == pytest.approx(expected, rel=0.2)
