"""`myxtts voice`, `say` and `clone`: from a checkpoint to a voice, and from a text to sound.

What a program may want (sound on standard output) goes to standard output; what a person reads goes to standard error then.
Exit codes: 0 done; 2 a mistake that can be mended, told in one message, with no half-written file; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from myxtts.errors import TextError, VoiceError
from myxtts.runtime.startup import start_tensorflow

if TYPE_CHECKING:
    from myxtts.synthesis.voice import SpeechOptions, Voice

STANDARD_STREAM = "-"
MOST_TEXT_BYTES = 4 << 20
SHOWN_SYMBOLS = 10


# --- arguments --------------------------------------------------------------------------------------------------------


def configure_voice(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts voice`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    export = actions.add_parser("export", help="make a voice folder from a checkpoint")
    export.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint, or a run's folder (its best is taken)")
    export.add_argument("out", metavar="OUT", help="folder to write")
    export.add_argument("--licence", default="", help="under what terms the voice may be used")
    export.add_argument("--attribution", default="", help="whom to name: the people who recorded and trained it")
    show = actions.add_parser("show", help="languages, speakers, size and licence of a voice")
    show.add_argument("voice", metavar="VOICE", nargs="?", help="voice folder; default: the bundled voice")


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


def run_voice(arguments: argparse.Namespace) -> int:
    """Export or show a voice."""
    return _export(arguments) if arguments.action == "export" else _show(arguments)


def run_say(arguments: argparse.Namespace) -> int:
    """Speak a text to a file."""
    text = _read_text(arguments)
    voice = _load_voice(arguments)
    speaker = arguments.speaker
    if speaker is not None and speaker not in voice.speakers and Path(speaker).is_file():
        from myxtts.synthesis.speaker import Speaker

        speaker = Speaker.load(speaker)
    return _speak(voice, text, _speech_options(arguments, speaker), arguments)


def run_clone(arguments: argparse.Namespace) -> int:
    """Speak a text in the voice of a recording."""
    has_text = arguments.text is not None or arguments.text_file is not None or not arguments.save_speaker
    text = _read_text(arguments) if has_text else None
    voice = _load_voice(arguments)
    speaker = voice.clone([arguments.reference, *arguments.more])
    if arguments.save_speaker:
        speaker.save(arguments.save_speaker)
        _report_stream(arguments).write(f"speaker: {arguments.save_speaker}\n")
    if text is None:
        return 0
    return _speak(voice, text, _speech_options(arguments, speaker), arguments)


# --- speaking ---------------------------------------------------------------------------------------------------------


def _speak(voice: Voice, text: str, options: SpeechOptions, arguments: argparse.Namespace) -> int:
    from myxtts.synthesis.output import open_output

    path = None if arguments.output == STANDARD_STREAM else arguments.output
    unknown: Counter[str] = Counter()
    started = time.perf_counter()
    chunks = voice.say(text, options)
    with open_output(path, voice.sample_rate, arguments.format, sys.stdout.buffer) as output:
        for chunk in chunks:
            output.write(chunk.samples)
            unknown += chunk.unknown
    elapsed = time.perf_counter() - started
    seconds = output.num_samples / voice.sample_rate
    report = _report_stream(arguments)
    if unknown:
        shown = ", ".join(f"{symbol!r} {count}" for symbol, count in unknown.most_common(SHOWN_SYMBOLS))
        report.write(f"left out, the voice has not learnt them: {shown}\n")
    report.write(
        f"{path or 'standard output'}: {seconds:.2f} s of speech in {elapsed:.2f} s (real-time factor {elapsed / seconds:.3f})\n"
    )
    return 0


def _report_stream(arguments: argparse.Namespace) -> TextIO:
    return sys.stderr if arguments.output == STANDARD_STREAM else sys.stdout


def _speech_options(arguments: argparse.Namespace, speaker) -> SpeechOptions:
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


def _read_text(arguments: argparse.Namespace) -> str:
    """The text from the argument, the file or standard input; exactly one of them."""
    if arguments.text_file is not None:
        if arguments.text is not None:
            raise TextError("Give the text as an argument or as --text-file, not both.")
        try:
            with open(arguments.text_file, "rb") as file:
                content = file.read(MOST_TEXT_BYTES)
        except OSError as error:
            raise TextError(f"{arguments.text_file} cannot be read: {error.strerror}.") from None
        source = arguments.text_file
    elif arguments.text in (None, STANDARD_STREAM):
        if sys.stdin.isatty():
            raise TextError('There is no text. Give one: myxtts say "Hello", --text-file FILE, or through a pipe.')
        content, source = sys.stdin.buffer.read(MOST_TEXT_BYTES), "Standard input"
    else:
        content, source = arguments.text.encode("utf-8", "surrogateescape"), "The text"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{source} is not UTF-8 text (byte {error.start}). Convert it: iconv -t UTF-8.") from None
    if not text.strip():
        raise TextError(f"{source} is empty. Expected something to say.")
    return text


def _load_voice(arguments: argparse.Namespace) -> Voice:
    """Everything that can be refused without TensorFlow is refused before TensorFlow is imported."""
    from myxtts.synthesis.output import check_output
    from myxtts.synthesis.voice_folder import bundled_voice, read_description

    folder = Path(arguments.voice) if arguments.voice is not None else bundled_voice()
    description = read_description(folder)
    _speech_options(arguments, None)
    if arguments.language is not None and arguments.language not in description.languages:
        listed = ", ".join(description.languages)
        raise VoiceError(f"This voice has no language {arguments.language!r:.60}. It has: {listed}.")
    if arguments.output != STANDARD_STREAM:
        check_output(arguments.output, arguments.format)
    start_tensorflow()
    import tensorflow as tf

    from myxtts.synthesis.voice import Voice

    # The graph optimizer costs more in the first call than it gains in one sentence (docs/synthesis.md).
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    return Voice.load(folder)


# --- voices -----------------------------------------------------------------------------------------------------------


def _export(arguments: argparse.Namespace) -> int:
    from myxtts.training.checkpoint import load_checkpoint, resolve_checkpoint

    checkpoint = load_checkpoint(resolve_checkpoint(Path(arguments.checkpoint)))
    start_tensorflow()
    from myxtts.training.voices import export_voice

    folder = export_voice(checkpoint, Path(arguments.out), arguments.licence, arguments.attribution)
    return _show(argparse.Namespace(voice=str(folder)))


def _show(arguments: argparse.Namespace) -> int:
    from myxtts.synthesis.voice_folder import WEIGHTS_NAME, bundled_voice, read_description

    folder = Path(arguments.voice) if arguments.voice is not None else bundled_voice()
    description = read_description(folder)
    model, mel = description.model_spec(), description.mel_spec()
    megabytes = (folder / WEIGHTS_NAME).stat().st_size / 1e6
    speakers = ", ".join(description.speakers) or "none by name"
    lines = {
        "voice": str(folder),
        "languages": ", ".join(description.languages),
        "speakers": speakers + ("; can clone" if model.has_speakers else "; cannot clone"),
        "symbols": f"{len(description.symbols)} {description.front_end['kind']}",
        "sound": f"{mel.sample_rate} Hz, {mel.n_mels} mel bands",
        "size": f"{megabytes:.1f} MB",
        "licence": description.licence or "not stated",
        "attribution": description.attribution or "not stated",
        "written by": description.written_by,
        **{name: str(value) for name, value in description.about.items()},
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        sys.stdout.write(f"{name:<{width}}  {_printable(value)}\n")
    return 0


def _printable(text: str) -> str:
    """A stranger's text without control characters that would move the cursor."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
