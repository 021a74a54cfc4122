"""`myxtts say` and `clone`: speak a text, or a list of texts, to files, standard output or a player.

If audio goes to standard output, messages go to standard error. Exit codes: 0 success; 2 a user's mistake, explained in one
message; 128 + n ended by signal n (130 interrupted, 143 terminated). No incomplete file is left behind in any case.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from myxtts.errors import AudioError, TextError, VoiceError
from myxtts.runtime.console import exit_on_signals, printable

if TYPE_CHECKING:
    from myxtts.synthesis.options import SpeechOptions
    from myxtts.synthesis.speaker import Speaker
    from myxtts.synthesis.voice import Voice
    from myxtts.synthesis.voice_folder import VoiceDescription

STANDARD_STREAM = "-"
DEFAULT_STEM = "speech"
"""Without -o the file is speech.wav, or speech-2.wav, … if that exists."""
MOST_TEXT_BYTES = 4 << 20
SHOWN_SYMBOLS = 10
EXIT_FAILED = 1
"""Some texts of a batch could not be spoken."""


# --- arguments --------------------------------------------------------------------------------------------------------


def configure_say(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts say`."""
    parser.add_argument("text", metavar="TEXT", nargs="?", help="text to speak (default, or -: standard input)")
    parser.add_argument(
        "--speaker",
        metavar="NAME|FILE",
        help="a speaker of the voice, a mixture (anna:0.7+ben:0.3), or one saved by `myxtts clone`",
    )
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="speak each line of a .txt, .csv, .tsv or .jsonl file into a file of the folder -o; existing files are skipped",
    )
    listings = parser.add_mutually_exclusive_group()
    listings.add_argument("--list-voices", action="store_true", help="list the available voices and exit")
    listings.add_argument("--list-languages", action="store_true", help="list the languages of the voice and exit")
    listings.add_argument("--list-speakers", action="store_true", help="list the speakers of the voice and exit")
    _add_speech_arguments(parser, clones=False)


def configure_clone(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts clone`."""
    parser.add_argument("reference", metavar="REFERENCE", help="recording of the voice to clone, at least 1 s long")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="text to speak (default, or -: standard input)")
    parser.add_argument(
        "--reference",
        dest="more",
        action="append",
        default=[],
        metavar="FILE",
        help="another recording of the same voice (repeatable)",
    )
    parser.add_argument(
        "--save-speaker", metavar="FILE", help="save the cloned speaker for `myxtts say --speaker FILE`"
    )
    _add_speech_arguments(parser, clones=True)


def _add_speech_arguments(parser: argparse.ArgumentParser, clones: bool) -> None:
    from myxtts.synthesis.options import SpeechOptions

    defaults = SpeechOptions()
    parser.add_argument("--text-file", metavar="FILE", help="read the text from a file (UTF-8)")
    parser.add_argument(
        "--voice",
        metavar="NAME|DIR",
        help="a bundled voice by name, or a voice folder (default: the bundled voice for the language)",
    )
    parser.add_argument("--vocoder", metavar="FILE", help=".onnx file of a vocoder (default: the voice's own)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="wav, flac, ogg, mp3 or raw file; - for standard output (default: a new file speech.wav, speech-2.wav, …)",
    )
    parser.add_argument("--play", action="store_true", help="play the speech; a file is written only with -o")
    parser.add_argument("--format", help="audio format (default: by the file name; wav for standard output)")
    parser.add_argument(
        "--sample-rate", type=int, metavar="HZ", help="sample rate of the output (default: that of the voice)"
    )
    parser.add_argument("--timings", metavar="FILE", help="write the time of each word to a .json, .srt or .vtt file")
    kept = "speech.wav" if clones else "speech.wav, or the files of a batch,"
    parser.add_argument("--force", action="store_true", help=f"replace {kept} instead of keeping what exists")
    parser.add_argument("--language", help="language of the text, by code or name (default: by the script of the text)")
    parser.add_argument(
        "--speed", type=float, default=defaults.speed, help="speaking rate; 2 is twice as fast (default: %(default)s)"
    )
    parser.add_argument(
        "--pause", type=float, default=defaults.pause, help="seconds of silence after a sentence (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=defaults.seed, help="the same seed gives the same audio (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, help="decoder steps: more are slower (default: set by the voice)")
    parser.add_argument(
        "--temperature",
        type=float,
        help="variation of the speech, from 0 (flat) to 1 (lively) (default: set by the voice)",
    )
    parser.add_argument(
        "--expressiveness",
        type=float,
        default=defaults.expressiveness,
        help="how far the pitch moves around its mean, from 0 (monotone); only for voices that predict it (default: %(default)s)",
    )


# --- commands ---------------------------------------------------------------------------------------------------------


def run_say(arguments: argparse.Namespace) -> int:
    """Speak a text to a file."""
    if arguments.list_voices or arguments.list_languages or arguments.list_speakers:
        return _list(arguments)
    if arguments.batch is not None:
        with exit_on_signals():
            return _run_batch(arguments)
    with exit_on_signals():
        text = _read_text(arguments)
        folder, description = _read_voice(arguments, text)
        options = _speech_options(arguments, _speaker_of(arguments.speaker, description))
        with _open_destination(arguments, description) as destination:
            voice, start_up_seconds = _load_voice(folder, arguments.vocoder)
            return _speak(voice, text, options, destination, start_up_seconds)


def _run_batch(arguments: argparse.Namespace) -> int:
    """Speak every line of a file; the files that exist are skipped, so that a run can be resumed."""
    from myxtts.synthesis.batch_file import read_batch, speak_batch

    for name, value in (
        ("TEXT", arguments.text),
        ("--text-file", arguments.text_file),
        ("--timings", arguments.timings),
    ):
        if value is not None:
            raise TextError(f"--batch and {name} cannot be used together. Remove one of them.")
    if arguments.output is None or arguments.output == STANDARD_STREAM or arguments.play:
        raise AudioError("--batch writes files: name their folder with -o FOLDER, and leave out --play.", "missing")
    folder, description = _read_voice(arguments, "")
    items = read_batch(arguments.batch, description)
    options = _speech_options(arguments, _speaker_of(arguments.speaker, description))
    voice, _ = _load_voice(folder, arguments.vocoder)
    report = speak_batch(
        voice,
        items,
        options,
        Path(arguments.output),
        format=arguments.format or "wav",
        sample_rate=arguments.sample_rate or voice.sample_rate,
        replaces=arguments.force,
    )
    for line in report.failures:
        sys.stderr.write(f"{printable(line, keeps_lines=False)}\n")
    skipped = f", {report.num_skipped} existed already" if report.num_skipped else ""
    failed = f", {len(report.failures)} failed" if report.failures else ""
    sys.stdout.write(f"{printable(arguments.output)}: {report.num_spoken} files{skipped}{failed}\n")
    return EXIT_FAILED if report.failures else 0


def run_clone(arguments: argparse.Namespace) -> int:
    """Speak a text in the voice of a recording."""
    with exit_on_signals():
        has_text = arguments.text is not None or arguments.text_file is not None or not arguments.save_speaker
        text = _read_text(arguments) if has_text else ""
        folder, description = _read_voice(arguments, text, clones=True)
        references = [arguments.reference, *arguments.more]
        written = [path for path in (arguments.output, arguments.timings, arguments.save_speaker) if path is not None]
        _check_cloning(references, written, arguments.save_speaker, description)
        with _open_destination(arguments, description) if has_text else nullcontext() as destination:
            voice, start_up_seconds = _load_voice(folder, arguments.vocoder)
            speaker = voice.clone(references)
            if arguments.save_speaker:
                speaker.save(arguments.save_speaker)
                report = sys.stdout if destination is None else destination.report_stream
                report.write(f"speaker: {printable(arguments.save_speaker)}\n")
            if destination is None or text is None:
                return 0
            return _speak(voice, text, _speech_options(arguments, speaker), destination, start_up_seconds)


def _list(arguments: argparse.Namespace) -> int:
    """Print one line per voice, language or speaker."""
    from myxtts.commands.voice import list_voices
    from myxtts.text.languages import language_name

    if arguments.list_voices:
        return list_voices([] if arguments.voice is None else [Path(arguments.voice)])
    _, description = _described_voice(arguments, "")
    if arguments.list_languages:
        lines = [f"{code}  {language_name(code)}" for code in description.languages]
    else:
        lines = list(description.speakers)
    for line in lines:
        sys.stdout.write(f"{printable(line, keeps_lines=False)}\n")
    return 0


# --- checks, before the voice is loaded --------------------------------------------------------------------------------


def _read_text(arguments: argparse.Namespace) -> str:
    """The text from the argument, the file or standard input."""
    from myxtts.synthesis.options import LONGEST_TEXT, check_text_length

    if arguments.text_file is not None:
        if arguments.text is not None:
            raise TextError("Give the text as an argument or as --text-file, not both.")
        try:
            with open(arguments.text_file, "rb") as file:
                content = file.read(MOST_TEXT_BYTES + 1)
        except OSError as error:
            raise TextError(f"{arguments.text_file} cannot be read: {error.strerror}. Name another file.") from None
        source = arguments.text_file
    elif arguments.text in (None, STANDARD_STREAM):
        if sys.stdin.isatty():
            raise TextError('There is no text. Give one: myxtts say "Hello", --text-file FILE, or a pipe.')
        content, source = sys.stdin.buffer.read(MOST_TEXT_BYTES + 1), "Standard input"
    else:
        content, source = arguments.text.encode("utf-8", "surrogateescape"), "The text"
    if len(content) > MOST_TEXT_BYTES:
        raise TextError(
            f"{source} has more than {MOST_TEXT_BYTES:,} bytes; the limit is {LONGEST_TEXT:,} characters. "
            "Split it into parts."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{source} is not UTF-8 text (byte {error.start}). Convert it: iconv -t UTF-8.") from None
    if not text.strip():
        raise TextError(f"{source} is empty. Expected text to speak.")
    check_text_length(text)
    return text


def _read_voice(arguments: argparse.Namespace, text: str, clones: bool = False) -> tuple[Path, VoiceDescription]:
    """The folder and description of the voice; raises an error for options that it does not support.

    Sets `arguments.language` where the script of the text gives it.
    """
    from myxtts.synthesis.bundled import guess_language
    from myxtts.synthesis.options import check_front_end, check_language

    folder, description = _described_voice(arguments, text, clones)
    _speech_options(arguments, None)
    if arguments.language is None:
        arguments.language = guess_language(text, description.languages)
    language = check_language(arguments.language, description.languages)
    check_front_end(description.tokenizer().front_end, language)
    return folder, description


def _described_voice(arguments: argparse.Namespace, text: str, clones: bool = False) -> tuple[Path, VoiceDescription]:
    """The voice that was named, otherwise the bundled one for the language that can clone or has the speaker."""
    from myxtts.synthesis.bundled import BUNDLED, bundled_voice_for, find_voice
    from myxtts.synthesis.voice_folder import read_description

    speaker = None if clones else arguments.speaker

    def suits(folder: Path, description: VoiceDescription) -> bool:
        if clones:
            return description.model_spec().has_speakers
        return speaker is None or _has_speaker(speaker, folder, description)

    if arguments.voice in (None, BUNDLED):
        folder = bundled_voice_for(text, arguments.language, suits)
    else:
        folder = find_voice(arguments.voice)
    return folder, read_description(folder)


def _has_speaker(name: str, folder: Path, description: VoiceDescription) -> bool:
    from myxtts.synthesis.options import parse_mixture
    from myxtts.synthesis.speaker import Speaker
    from myxtts.synthesis.voice_folder import voice_identity

    if name not in description.speakers and os.path.isfile(name):
        return Speaker.load(name).voice == voice_identity(folder, description)
    try:
        parse_mixture(name, description.speakers)
    except VoiceError:
        return False
    return True


def _speaker_of(name: str | None, description: VoiceDescription) -> str | Speaker | None:
    """The name of a speaker of the voice, a mixture, or a speaker saved in a file."""
    from myxtts.synthesis.options import parse_mixture
    from myxtts.synthesis.speaker import Speaker

    if name is not None and name not in description.speakers and os.path.isfile(name):
        return Speaker.load(name)
    if name is not None:
        parse_mixture(name, description.speakers)
    return name


def _check_cloning(
    references: list[str], written: list[str], save_speaker: str | None, description: VoiceDescription
) -> None:
    from myxtts.synthesis.options import check_can_clone
    from myxtts.synthesis.output import check_place
    from myxtts.synthesis.speaker import check_reference

    check_can_clone(description.model_spec())
    for path in references:
        check_reference(path)
        for target in written:
            if os.path.exists(target) and os.path.samefile(path, target):
                raise AudioError(
                    f"{target} is the reference recording and would be overwritten. Name another file with -o.",
                    "missing",
                )
    if save_speaker is not None:
        check_place(save_speaker)


@dataclass(frozen=True)
class _Destination:
    """Where speech goes: to a file or standard output (`path` is None), to a player, or both."""

    is_written: bool
    path: Path | None
    format: str
    player: str | None
    sample_rate: int
    timings: Path | None

    @property
    def name(self) -> str:
        if not self.is_written:
            return "playing"
        return printable(str(self.path)) if self.path is not None else "standard output"

    @property
    def report_stream(self) -> TextIO:
        """Standard output, unless audio is written to it."""
        return sys.stderr if self.is_written and self.path is None else sys.stdout


@contextmanager
def _open_destination(arguments: argparse.Namespace, description: VoiceDescription) -> Iterator[_Destination]:
    """The checked destination. A file without a given name is a new one, and is removed if the block fails."""
    from myxtts.audio.files import check_rate
    from myxtts.synthesis.output import (
        check_output_rate,
        check_place,
        check_places,
        find_player,
        new_file,
        resolve_format,
    )
    from myxtts.synthesis.timings import check_timings_name

    output, is_stream = arguments.output, arguments.output == STANDARD_STREAM
    if is_stream and arguments.play:
        raise AudioError("--play and `-o -` (standard output) cannot be used together. Remove one of them.", "missing")
    path = None if output is None or is_stream else Path(output)
    format = resolve_format(path, arguments.format)
    sample_rate = description.mel_spec().sample_rate if arguments.sample_rate is None else arguments.sample_rate
    check_output_rate(sample_rate)
    check_rate(format, sample_rate)
    timings = None if arguments.timings is None else Path(arguments.timings)
    if timings is not None:
        check_timings_name(timings)
    player = find_player() if arguments.play else None
    check_places([path, timings, getattr(arguments, "save_speaker", None)])
    if output is not None or player is not None:
        yield _Destination(output is not None, path, format, player, sample_rate, timings)
        return
    if arguments.force:
        path = Path(f"{DEFAULT_STEM}.{format}")
        check_place(path)
        yield _Destination(True, path, format, None, sample_rate, timings)
        return
    with new_file(DEFAULT_STEM, format) as path:
        yield _Destination(True, path, format, None, sample_rate, timings)


# --- speaking ---------------------------------------------------------------------------------------------------------


def _speak(voice: Voice, text: str, options: SpeechOptions, destination: _Destination, start_up_seconds: float) -> int:
    from myxtts.audio.files import resample
    from myxtts.synthesis.output import AudioFileWriter, open_output, play, synthetic_tags
    from myxtts.synthesis.timings import Timeline

    rate, num_samples, tags = destination.sample_rate, 0, synthetic_tags(voice.name)
    timeline = Timeline()
    unknown: Counter[str] = Counter()
    started = time.perf_counter()
    chunks = voice.say(text, options)
    if destination.is_written and destination.format == "raw":
        sys.stderr.write(f"raw: 16-bit little-endian mono samples at {rate} Hz (aplay -f S16_LE -r {rate})\n")
    with ExitStack() as stack:
        played = None
        if destination.player is not None:
            played = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "speech.wav"
        with ExitStack() as writers:
            outputs = []
            if destination.is_written:
                opened = open_output(destination.path, rate, destination.format, sys.stdout.buffer, tags)
                outputs.append(writers.enter_context(opened))
            if played is not None:
                outputs.append(writers.enter_context(AudioFileWriter(played, rate, tags=tags)))
            for chunk in chunks:
                samples = resample(chunk.samples, chunk.sample_rate, rate)
                for output in outputs:
                    output.write(samples)
                num_samples += len(samples)
                unknown += chunk.unknown
                if destination.timings is not None:
                    words, has_phonemes = voice.words_of(chunk), voice.speaks_phonemes
                    timeline.add(chunk.text, chunk.seconds, chunk.symbols, words, has_phonemes, chunk.marks)
        if destination.timings is not None:
            timeline.save(destination.timings)
        _report(destination, num_samples / rate, time.perf_counter() - started, start_up_seconds, unknown)
        if played is not None and destination.player is not None:
            sys.stdout.flush()  # print the report before playing
            play(played, destination.player)
    return 0


def _report(
    destination: _Destination, seconds: float, elapsed_seconds: float, start_up_seconds: float, unknown: Counter[str]
) -> None:
    stream = destination.report_stream
    if unknown:
        shown = ", ".join(f"{symbol!r} ×{count}" for symbol, count in unknown.most_common(SHOWN_SYMBOLS))
        stream.write(f"skipped (not in this voice's symbols): {shown}\n")
    stream.write(
        f"{destination.name}: {seconds:.2f} s of speech in {elapsed_seconds:.2f} s (real-time factor "
        f"{elapsed_seconds / seconds:.3f}; plus {start_up_seconds:.1f} s start-up)\n"
    )


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
        expressiveness=arguments.expressiveness,
    )


def _load_voice(folder: Path, vocoder: str | None) -> tuple[Voice, float]:
    """The voice, and the seconds that it took to load ONNX Runtime and the voice."""
    started = time.perf_counter()
    from myxtts.synthesis.voice import Voice

    return Voice.load(folder, vocoder=vocoder), time.perf_counter() - started
