"""Exported voices are spoken by the real programs. `make test-slow` installs them."""

import numpy as np
import pytest

from myxtts.export.piper import export_piper, export_sherpa
from myxtts.synthesis.griffin_lim import GriffinLim
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.pieces import noise_of
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import bundled_voice
from tests.synthesis.tiny_voice import write_voice

pytestmark = pytest.mark.slow


def test_piper_speaks_the_bundled_voice_as_we_do(tmp_path):
    piper = pytest.importorskip("piper")
    folder = export_piper(bundled_voice(), tmp_path / "allison")
    loaded = piper.PiperVoice.load(folder / "allison.onnx")
    settings = piper.SynthesisConfig(noise_scale=0.0, normalize_audio=False)
    (chunk,) = loaded.synthesize("Thank you for calling.", settings, include_alignments=True)
    assert "".join(chunk.phonemes) == "θˈæŋk juː fɔːɹ kˈɔːlɪŋ."

    voice = Voice.load()
    ids = [each for each in chunk.phoneme_ids if 1 < each < len(voice.description.symbols)]
    sampling = voice.sampling(SpeechOptions(temperature=0.0))
    encoded = voice.engine.encode(ids, sampling)
    samples = [each.num_samples for each in chunk.phoneme_alignments]
    assert sum(samples) == encoded.frames.sum() * voice.mel.hop_length
    noise = noise_of(0, 0, int(encoded.frames.sum()), voice.mel.n_mels)
    expected = GriffinLim(voice.mel)(voice.engine.decode(*encoded, noise, sampling))
    spoken = chunk.audio_float_array
    assert len(spoken) == len(expected)
    assert np.sqrt(np.mean((spoken - np.clip(expected, -1, 1)) ** 2)) < 5e-3


def sherpa_voice(sherpa_onnx, folder):
    lexicon = folder / "lexicon.txt"
    vits = sherpa_onnx.OfflineTtsVitsModelConfig(
        model=str(folder / "model.onnx"),
        lexicon=str(lexicon) if lexicon.is_file() else "",
        tokens=str(folder / "tokens.txt"),
    )
    config = sherpa_onnx.OfflineTtsConfig(model=sherpa_onnx.OfflineTtsModelConfig(vits=vits, num_threads=1))
    assert config.validate()
    return sherpa_onnx.OfflineTts(config)


def test_sherpa_speaks_the_words_of_a_lexicon(tmp_path):
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    folder = export_sherpa(bundled_voice(), tmp_path / "allison", words=["thank", "you", "for", "calling"])
    audio = sherpa_voice(sherpa_onnx, folder).generate("thank you for calling", sid=0, speed=1.0)
    assert audio.sample_rate == 16000
    assert len(audio.samples) / 16000 == pytest.approx(
        Voice.load().synthesize("Thank you for calling", pause=0).seconds, rel=0.3
    )
    assert np.abs(audio.samples).max() > 0.01


def test_sherpa_speaks_letters(tmp_path):
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    voice = write_voice(tmp_path / "voice")
    audio = sherpa_voice(sherpa_onnx, export_sherpa(voice, tmp_path / "out")).generate("hello there", sid=0, speed=1.0)
    expected = Voice.load(voice).synthesize("hello there", pause=0).seconds
    assert len(audio.samples) / audio.sample_rate == pytest.approx(expected, rel=0.2)
