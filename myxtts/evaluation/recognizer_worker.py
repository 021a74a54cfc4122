"""One pocketsphinx decoder in a process of its own: paths of 16 kHz wav files in (JSON lines), texts out (JSON lines).

Started by `myxtts.evaluation.recognizers`; ends when its input ends. Every clip is brought to the same shape first (silence at
the
ends cut, one level, faint noise under it), and the decoder keeps nothing from one clip to the next, so that a clip's text
does not depend on what was heard before it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import soundfile

from myxtts.audio.clips import SILENT_PEAK, level_loudness, trim_silence

DECODER_RATE = 16000
DECODER_SETTINGS = {
    "cmn": "batch",  # mean of the clip itself; "live", the default, carries the mean of the clips before
    "maxhmmpf": 3000,  # two thirds of the time, and no difference beyond chance
    "loglevel": "FATAL",
}
"""What differs from pocketsphinx's defaults; docs/evaluation.md tells what each gave."""
SILENCE_DB = 40.0
LEVEL_DB = -23.0
PADDING_SECONDS = 0.1
NOISE_LEVEL = 3e-4
"""RMS of the noise (70 dB below full scale) that is laid under every clip: a synthesised pause can be digital silence, which no
recording is."""


def prepare_clip(samples: np.ndarray) -> bytes | None:
    """16-bit samples as the decoder takes them, from float samples at 16 kHz; None if there is nothing to hear."""
    if len(samples) == 0 or float(np.abs(samples).max()) < SILENT_PEAK:
        return None
    speech = level_loudness(trim_silence(samples, DECODER_RATE, SILENCE_DB), DECODER_RATE, LEVEL_DB)
    padded = np.pad(speech, round(PADDING_SECONDS * DECODER_RATE))
    noise = np.random.default_rng(0).normal(0.0, NOISE_LEVEL, len(padded))
    return (np.clip(padded + noise, -1.0, 1.0) * 32767).astype("<i2").tobytes()


def hear(decoder: Any, samples: np.ndarray) -> str:
    """The text that one clip is heard as; empty if nothing is."""
    prepared = prepare_clip(samples)
    if prepared is None:
        return ""
    decoder.start_utt()
    decoder.process_raw(prepared, full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return "" if hypothesis is None else hypothesis.hypstr


def main() -> None:
    """Answer until the input ends."""
    from pocketsphinx import Decoder

    decoder = Decoder(samprate=DECODER_RATE, **DECODER_SETTINGS)
    for line in sys.stdin:
        samples, _ = soundfile.read(json.loads(line), dtype="float32")
        sys.stdout.write(json.dumps(hear(decoder, samples)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
