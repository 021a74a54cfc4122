"""`myxtts say` and `clone`: from a text to sound.

What a program may want (sound on standard output) goes to standard output; what a person reads goes to standard error then.
Exit codes: 0 done; 2 a mistake that can be mended, told in one message, with no half-written file; 128 + n ended by signal
n (130 interrupted, 143 terminated), again with no half-written file.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from myxtts.errors import TextError
from myxtts.runtime.ending import clean_end
from myxtts.runtime.printable import printable
from myxtts.runtime.startup import start_tensorflow

if TYPE_CHECKING:
    from myxtts.synthesis.speaker import Speaker
    from myxtts.synthesis.voice import SpeechOptions, Voice
    from myxtts.synthesis.voice_folder import VoiceDescription

STANDARD_STREAM = "-"
MOST_TEXT_BYTES = 4 << 20
SHOWN_SYMBOLS = 10


# --- arguments --------------------------------------------------------------------------------------------------------


def configure_say(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts say`."""
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say; without it, or with -, standard input")
    parser.add_argument("--speaker", metavar="NAME|FILE", help="a speaker of the voice, or one saved by `myxtts clone`")
    _add_speech_arguments(parser)


def configure_clone(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts clone`."""
    parser.add_argument("reference", metavar="REFERENCE", help="a recording of 1 s or more of the voice to follow")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say; without it, or with -, standard input")
    parser.add_argument(
        "--reference", dest="more", action="append", default=[], metavar="FILE", help="one more recording (repeatable)"
    )
    parser.add_argument("--save-speaker", metavar="FILE", help="keep the speaker, for `myxtts say --speaker FILE`")
    _add_speech_arguments(parser)


def _add_speech_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text-file", metavar="FILE", help="read the text (UTF-8) from a file")
    parser.add_argument("--voice", metavar="DIR", help="voice folder; default: the bundled voice")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="speech.wav", help="wav, flac, ogg, mp3 or raw; - is standard output"
    )
    parser.add_argument("--format", help="format of the output; default: by its name, wav for standard output")
    parser.add_argument("--language", help="language of the text; default: the voice's first")
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast")
    parser.add_argument("--pause", type=float, default=0.25, help="seconds of silence after a sentence")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same audio")
    parser.add_argument("--steps", type=int, help="steps of the decoder; default: the voice's")
    parser.add_argument("--temperature", type=float, help="0 is flat, 1 is lively; default: the voice's")


# --- commands ---------------------------------------------------------------------------------------------------------


def run_say(arguments: argparse.Namespace) -> int:
    """Speak a text to a file."""
    with clean_end():
        text = _read_text(arguments)
        folder, description = _read_voice(arguments)
        _check_output(arguments, description)
        options = _speech_options(arguments, _speaker_of(arguments.speaker, description))
        return _speak(_load_voice(folder), text, options, arguments)


def run_clone(arguments: argparse.Namespace) -> int:
    """Speak a text in the voice of a recording."""
    with clean_end():
        has_text = arguments.text is not None or arguments.text_file is not None or not arguments.save_speaker
        text = _read_text(arguments) if has_text else None
        folder, description = _read_voice(arguments)
        references = [arguments.reference, *arguments.more]
        _check_cloning(references, arguments.save_speaker, description)
        if text is not None:
            _check_output(arguments, description)
        voice = _load_voice(folder)
        speaker = voice.clone(references)
        if arguments.save_speaker:
            speaker.save(arguments.save_speaker)
            _report_stream(arguments).write(f"speaker: {printable(arguments.save_speaker)}\n")
        if text is None:
            return 0
        return _speak(voice, text, _speech_options(arguments, speaker), arguments)


# --- what is refused before TensorFlow is imported ----------------------------------------------------------------------


def _read_text(arguments: argparse.Namespace) -> str:
    """The text from the argument, the file or standard input; exactly one of them."""
    from myxtts.synthesis.checks import LONGEST_TEXT, check_text_length

    if arguments.text_file is not None:
        if arguments.text is not None:
            raise TextError("Give the text as an argument or as --text-file, not both.")
        try:
            with open(arguments.text_file, "rb") as file:
                content = file.read(MOST_TEXT_BYTES + 1)
        except OSError as error:
            raise TextError(f"{arguments.text_file} cannot be read: {error.strerror}.") from None
        source = arguments.text_file
    elif arguments.text in (None, STANDARD_STREAM):
        if sys.stdin.isatty():
            raise TextError('There is no text. Give one: myxtts say "Hello", --text-file FILE, or through a pipe.')
        content, source = sys.stdin.buffer.read(MOST_TEXT_BYTES + 1), "Standard input"
    else:
        content, source = arguments.text.encode("utf-8", "surrogateescape"), "The text"
    if len(content) > MOST_TEXT_BYTES:
        raise TextError(
            f"{source} has more than {MOST_TEXT_BYTES:,} bytes; at most {LONGEST_TEXT:,} characters are spoken at once. "
            "Split it into parts."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{source} is not UTF-8 text (byte {error.start}). Convert it: iconv -t UTF-8.") from None
    if not text.strip():
        raise TextError(f"{source} is empty. Expected something to say.")
    check_text_length(text)
    return text


def _read_voice(arguments: argparse.Namespace) -> tuple[Path, VoiceDescription]:
    """The voice's folder and description; options that it cannot follow are told."""
    from myxtts.synthesis.checks import check_name
    from myxtts.synthesis.voice_folder import bundled_voice, read_description

    folder = Path(arguments.voice) if arguments.voice is not None else bundled_voice()
    description = read_description(folder)
    _speech_options(arguments, None)
    if arguments.language is not None:
        check_name("language", arguments.language, description.languages)
    return folder, description


def _speaker_of(name: str | None, description: VoiceDescription) -> str | Speaker | None:
    """A name that the voice knows, else the file of a saved speaker."""
    from myxtts.synthesis.checks import check_name
    from myxtts.synthesis.speaker import Speaker

    if name is not None and name not in description.speakers and os.path.isfile(name):
        return Speaker.load(name)
    if name is not None:
        check_name("speaker", name, description.speakers)
    return name


def _check_cloning(references: list[str], save_speaker: str | None, description: VoiceDescription) -> None:
    from myxtts.synthesis.checks import check_can_clone
    from myxtts.synthesis.output import check_place
    from myxtts.synthesis.speaker import check_reference

    check_can_clone(description.model_spec())
    for path in references:
        check_reference(path)
    if save_speaker is not None:
        check_place(save_speaker)


def _check_output(arguments: argparse.Namespace, description: VoiceDescription) -> None:
    from myxtts.audio.files import check_rate
    from myxtts.synthesis.output import check_place, resolve_format

    path = _output_path(arguments)
    check_rate(resolve_format(path, arguments.format), description.mel_spec().sample_rate)
    if path is not None:
        check_place(path)


def _output_path(arguments: argparse.Namespace) -> str | None:
    """None is standard output."""
    return None if arguments.output == STANDARD_STREAM else arguments.output


# --- speaking ---------------------------------------------------------------------------------------------------------


def _speak(voice: Voice, text: str, options: SpeechOptions, arguments: argparse.Namespace) -> int:
    from myxtts.synthesis.output import open_output

    path = _output_path(arguments)
    unknown: Counter[str] = Counter()
    started, compiled = time.perf_counter(), voice.seconds_compiling
    chunks = voice.say(text, options)
    with open_output(path, voice.sample_rate, arguments.format, sys.stdout.buffer) as output:
        for chunk in chunks:
            output.write(chunk.samples)
            unknown += chunk.unknown
    start = voice.seconds_compiling - compiled
    elapsed = time.perf_counter() - started - start
    seconds = output.num_samples / voice.sample_rate
    report = _report_stream(arguments)
    if unknown:
        shown = ", ".join(f"{symbol!r} {count}" for symbol, count in unknown.most_common(SHOWN_SYMBOLS))
        report.write(f"left out, the voice has not learnt them: {shown}\n")
    name = printable(path or "standard output")
    report.write(
        f"{name}: {seconds:.2f} s of speech in {elapsed:.2f} s (real-time factor {elapsed / seconds:.3f}), "
        f"after {start:.1f} s of start\n"
    )
    return 0


def _report_stream(arguments: argparse.Namespace) -> TextIO:
    return sys.stderr if _output_path(arguments) is None else sys.stdout


def _speech_options(arguments: argparse.Namespace, speaker: str | Speaker | None) -> SpeechOptions:
    from myxtts.synthesis.options import SpeechOptions

    return SpeechOptions(
        language=arguments.language,
        speaker=speaker,
        speed=arguments.speed,
        pause=arguments.pause,
        seed=arguments.seed,
        steps=arguments.steps,
        temperature=arguments.temperature,
    )


def _load_voice(folder: Path) -> Voice:
    start_tensorflow()
    import tensorflow as tf

    from myxtts.synthesis.voice import Voice

    # The graph optimizer costs more in the first call than it gains in one sentence (docs/synthesis.md).
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    return Voice.load(folder)
