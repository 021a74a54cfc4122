"""The voices of a server by name: loaded voices, their speakers, cloned speakers, and the names that OpenAI's clients send."""

from __future__ import annotations

import difflib
import hashlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from myxtts.audio.files import write_audio
from myxtts.errors import AudioError, VoiceError
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import TEMPORARY_SUFFIX, cause_of
from myxtts.synthesis.bundled import bundled_voices, find_voice, guess_language, voice_for_text
from myxtts.synthesis.options import SHOWN_NAMES, check_front_end, parse_mixture
from myxtts.synthesis.speaker import Speaker
from myxtts.synthesis.voice import Audio, Voice
from myxtts.text.languages import match_language

OPENAI_VOICES = ("alloy", "echo", "fable", "onyx", "nova", "shimmer")
"""The names that clients have built in."""
LATER_OPENAI_VOICES = ("ash", "ballad", "coral", "sage", "verse", "marin", "cedar")
DEFAULT_NAMES = ("", "default")
MOST_SPEAKERS = 1000
"""Cloned speakers of one server."""
UNFINISHED_SECONDS = 60.0
"""Age at which an unfinished file counts as abandoned: writing one takes milliseconds."""
_SPEAKER_NAME = re.compile(r"[^\W_](?:[\w .-]{0,62}[^\W_])?")


class VoiceEntry(NamedTuple):
    """One name that a request may ask for."""

    id: str
    voice: str
    """Name of the loaded voice."""
    speaker: str | None
    languages: tuple[str, ...]
    is_cloned: bool = False


class Chosen(NamedTuple):
    """What a name stands for."""

    voice: Voice
    speaker: str | Speaker | None


class VoicePool:
    """Loaded voices by name, the first being the default, and the cloned speakers of a folder."""

    def __init__(self, voices: Mapping[str, Voice], speakers_folder: Path | None = None):
        """Use `open_voices`."""
        if not voices:
            raise VoiceError("A server needs at least one voice. Received: none.")
        self.loaded = dict(voices)
        self._speakers_folder = speakers_folder
        self._cloned: dict[str, Speaker] = {}
        self._lock = threading.Lock()

    @property
    def default(self) -> str:
        """Name of the first voice."""
        return next(iter(self.loaded))

    @property
    def stores_speakers(self) -> bool:
        """Whether there is a folder for cloned speakers."""
        return self._speakers_folder is not None

    def entries(self) -> list[VoiceEntry]:
        """Every voice, every speaker of a voice of several speakers, and every cloned speaker."""
        entries = []
        for name, voice in self.loaded.items():
            entries.append(VoiceEntry(name, name, None, voice.languages))
            if len(voice.speakers) > 1:
                entries += [VoiceEntry(f"{name}/{each}", name, each, voice.languages) for each in voice.speakers]
        for name, speaker in sorted(self._cloned.copy().items()):
            owner = self._owner(speaker)
            if owner is not None:
                entries.append(VoiceEntry(name, owner, name, self.loaded[owner].languages, is_cloned=True))
        return entries

    def aliases(self) -> dict[str, str]:
        """What OpenAI's names stand for: the voices and speakers in their order. Cloned speakers change nothing."""
        ids = [
            f"{name}/{speaker}" if len(voice.speakers) > 1 else name
            for name, voice in self.loaded.items()
            for speaker in (voice.speakers or ("",))
        ]
        names = OPENAI_VOICES + LATER_OPENAI_VOICES
        return {name: ids[index % len(ids)] for index, name in enumerate(names)}

    def choose(self, name: str | None, text: str = "", language: str | None = None) -> Chosen:
        """The voice and speaker of a name; a `VoiceError` that lists the names if there is none.

        A name is a voice, a cloned speaker, `voice/speaker`, a speaker of any voice, a mixture of speakers (`anna:0.7+ben:0.3`),
        or one of OpenAI's voices (`aliases`). Without a name, the first voice that has the language, or that is written in the
        script of the text.
        """
        if name is None or (name in DEFAULT_NAMES and name not in self.loaded):
            spoken = {each: voice.languages for each, voice in self.loaded.items()}
            return Chosen(self.loaded[voice_for_text(text, language, spoken)], None)
        if name in self.loaded:
            return Chosen(self.loaded[name], None)
        if name in self._cloned and (owner := self._owner(self._cloned[name])) is not None:
            return Chosen(self.loaded[owner], self._cloned[name])
        voice_name, slash, speaker = name.partition("/")
        if slash and voice_name in self.loaded:
            voice = self.loaded[voice_name]
            parse_mixture(speaker, voice.speakers)
            return Chosen(voice, speaker)
        for voice in self.loaded.values():
            if _is_speaker(name, voice):
                return Chosen(voice, name)
        alias = self.aliases().get(name.lower())
        if alias is not None:
            chosen, fitting = self.choose(alias), self.choose(None, text, language)
            # OpenAI's clients always send a name: one whose voice lacks the language stands for any voice.
            wanted = language or guess_language(text, fitting.voice.languages) or fitting.voice.languages[0]
            return chosen if match_language(wanted, chosen.voice.languages) in chosen.voice.languages else fitting
        ids = [entry.id for entry in self.entries()]
        near = difflib.get_close_matches(name[:200], ids, n=1)
        advice = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(printable(each, keeps_lines=False) for each in ids[:SHOWN_NAMES])
        raise VoiceError(f"There is no voice {name!r:.60}. Expected one of: {listed}.{advice}")

    def load_speakers(self) -> list[str]:
        """Read the cloned speakers of the folder; returns one line for each file that cannot be read."""
        if self._speakers_folder is None:
            return []
        problems = []
        _remove_unfinished(self._speakers_folder)
        for path in sorted(self._speakers_folder.glob("*.json")):
            try:
                speaker = Speaker.load(path)
            except VoiceError as error:
                problems.append(str(error))
                continue
            if speaker.name:
                self._cloned[speaker.name] = speaker
        return problems

    def add_speaker(
        self, name: str, voice: Voice, recordings: Sequence[Audio], *, keeps_recording: bool = False
    ) -> Speaker:
        """Clone the speaker of recordings and store its vector under a new name, and the first recording if asked to."""
        if self._speakers_folder is None:
            raise VoiceError("This server does not store speakers. Start it with --speakers FOLDER.")
        self.check_new_name(name)
        speaker = replace(voice.clone(recordings), name=name, created=int(time.time()))
        with self._lock:
            self.check_new_name(name)  # two uploads at once
            path = self._file(self._speakers_folder, name)
            speaker.save(path)
            if keeps_recording:
                self._keep(recordings[0], path)
            self._cloned[name] = speaker
        return speaker

    @staticmethod
    def _keep(recording: Audio, speaker_file: Path) -> None:
        """Store a recording next to its speaker; without it there is no speaker either."""
        try:
            write_audio(speaker_file.with_suffix(".wav"), *recording)
        except AudioError:
            speaker_file.unlink(missing_ok=True)
            raise

    def delete_speaker(self, name: str) -> None:
        """Remove a cloned speaker; a `VoiceError` if there is none of this name."""
        with self._lock:
            self.cloned(name)
            if self._speakers_folder is not None:
                path = self._file(self._speakers_folder, name)
                try:
                    path.unlink(missing_ok=True)
                    path.with_suffix(".wav").unlink(missing_ok=True)
                except OSError as error:
                    raise VoiceError(f"The speaker {name!r} could not be deleted: {cause_of(error)}.") from None
            del self._cloned[name]

    def cloned_speakers(self) -> list[Speaker]:
        """Every cloned speaker by name, also those of voices that are not loaded."""
        return [speaker for _, speaker in sorted(self._cloned.copy().items())]

    def cloned(self, name: str) -> Speaker:
        """A cloned speaker by name."""
        if name not in self._cloned:
            raise VoiceError(f"There is no cloned speaker {name!r:.80}. GET /v1/audio/speakers lists them.")
        return self._cloned[name]

    def recording_of(self, name: str) -> Path | None:
        """Where the recording of a cloned speaker is stored if it is kept."""
        return None if self._speakers_folder is None else self._file(self._speakers_folder, name).with_suffix(".wav")

    def check_new_name(self, name: str) -> None:
        """Raise a `VoiceError` for a name that a new speaker cannot have."""
        if not _SPEAKER_NAME.fullmatch(name):
            raise VoiceError(
                f"A speaker's name has 1 to 64 letters, digits, spaces, dots, dashes or underscores. Received: {name!r:.80}."
            )
        taken = name in self._cloned or name in self.loaded or name.lower() in OPENAI_VOICES + LATER_OPENAI_VOICES
        if taken or name in DEFAULT_NAMES or any(name in voice.speakers for voice in self.loaded.values()):
            advice = "Choose another name, or delete it first" if name in self._cloned else "Choose another name"
            raise VoiceError(f"There is already a voice or speaker {name!r}. {advice}.")
        if len(self._cloned) >= MOST_SPEAKERS:
            raise VoiceError(f"The server has {MOST_SPEAKERS} cloned speakers, its limit. Delete one first.")

    @staticmethod
    def _file(folder: Path, name: str) -> Path:
        """A file name that no request can choose."""
        return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"

    def _owner(self, speaker: Speaker) -> str | None:
        return next((name for name, voice in self.loaded.items() if voice.identity == speaker.voice), None)


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed server was writing; another one may use the same folder, so only what is old."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        with suppress(OSError):  # removed meanwhile, or not ours to remove
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink()


def open_voices(
    folders: Sequence[Path], speakers_folder: Path | None = None, threads: int = 1
) -> tuple[VoicePool, list[str]]:
    """Load voice folders (none: the bundled voices) and cloned speakers; also returns what could not be read.

    A voice that needs espeak-ng is a `TextError` if that is not installed.
    """
    voices: dict[str, Voice] = {}
    for folder in [find_voice(folder) for folder in folders] or bundled_voices().values():
        name = folder.resolve().name
        if name in voices:
            raise VoiceError(f"Two voices have the folder name {name!r}. Rename one of them: {folder}.")
        voices[name] = Voice.load(folder, threads)
        check_front_end(voices[name].description.tokenizer().front_end)
    pool = VoicePool(voices, speakers_folder)
    return pool, pool.load_speakers()


def _is_speaker(name: str, voice: Voice) -> bool:
    try:
        parse_mixture(name, voice.speakers)
    except VoiceError:
        return False
    return True
