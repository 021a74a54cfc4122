"""What the studio's Speak and Clone work on: voices of the server and the workspace, corrected pronunciations, references."""

from __future__ import annotations

import asyncio
import re
import threading
import unicodedata
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import UploadFile
from pydantic import BaseModel, Field

from myxtts.errors import AudioError, MyXTTSError, TextError, VoiceError
from myxtts.runtime.safe_files import cause_of, write_atomically
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.uploads import decode_upload
from myxtts.synthesis.options import SpeechOptions, check_language, check_name
from myxtts.synthesis.speaker import READ_SECONDS, Speaker
from myxtts.synthesis.voice import Audio, Voice
from myxtts.synthesis.voice_folder import (
    DESCRIPTION_NAME,
    VoiceDescription,
    find_voices,
    read_description,
    voice_identity,
)
from myxtts.text.lexicon import Lexicon, lexicon_key, load_lexicon
from myxtts.text.normalize import normalize_text
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY, is_sound

MOST_LOADED = 3
"""Voices of the workspace that stay in memory next to those of the server."""
MOST_CLONES = 8
"""References that are remembered until they are saved."""
CLONE_PREFIX = "clone:"
LEXICON_HEADER = (
    "# Pronunciations saved in the studio: word<TAB>phonemes (IPA). `data.lexicon` of a training takes this file.\n"
)
_SPOKEN_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|['’\u200c\u0300-\u036f])*")
"""A word as a lexicon looks it up: `twenty-five` is two."""
PAUSES = WORD_BOUNDARY + "".join(PAUSE_SYMBOLS)

Compare = Callable[[np.ndarray, int, np.ndarray, int], float | None]
"""How alike two speakers sound, -1 to 1, from samples and rate of both; None if one of them holds no speech."""


class SpeakBody(BaseModel):
    """A text to speak."""

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    voice: str | None = None
    language: str | None = None
    speaker: str | None = None
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class LexiconBody(BaseModel):
    """How a word is to be read."""

    voice: str | None = None
    language: str
    word: Annotated[str, Field(min_length=1, max_length=100)]
    phonemes: Annotated[str, Field(max_length=200)]
    """Empty: forget the word."""


class NameBody(BaseModel):
    """The name of a new speaker."""

    name: Annotated[str, Field(min_length=1, max_length=64)]


class _Clone(NamedTuple):
    """A reference that was uploaded."""

    recording: Audio
    voice: str
    speaker: Speaker


class StudioVoices:
    """The voices of the server and of the workspace, the studio's lexicons, and references that are being tried."""

    def __init__(self, engine: SpeechEngine, workspace: Path, folders: Mapping[str, Path], compare: Compare | None):
        """`folders` are those of the server's voices by name."""
        self.engine = engine
        self._workspace = workspace
        self._server_folders = folders
        self._compare = compare
        self._loaded: OrderedDict[tuple[Path, int], Voice] = OrderedDict()
        self._identities: dict[tuple[Path, int], str] = {}
        self._lexicons: dict[str, Lexicon] = {}
        self._clones: OrderedDict[str, _Clone] = OrderedDict()
        self._lock = threading.Lock()

    # --- voices -------------------------------------------------------------------------------------------------------

    def workspace_folders(self) -> dict[str, Path]:
        """The voices of the workspace: path below it → folder."""
        found = [*find_voices(self._workspace), *find_voices(self._workspace / "runs")]
        return {folder.relative_to(self._workspace).as_posix(): folder for folder in found if folder != self._workspace}

    def folder(self, name: str) -> Path:
        """The folder of a voice that `describe` lists."""
        folders = {**self._server_folders, **self.workspace_folders()}
        check_name("voice", name, list(folders))
        return folders[name]

    def describe(self) -> list[dict[str, Any]]:
        """Every voice that can be chosen; one that cannot be read is left out."""
        pool, listed = self.engine.voices, []
        cloned = pool.cloned_speakers()
        for name, voice in pool.loaded.items():
            own = [speaker.name for speaker in cloned if speaker.voice == voice.identity]
            listed.append(
                self._entry(name, voice.languages, voice.speakers, own, voice.can_clone, voice.speaks_phonemes)
            )
        for name, folder in self.workspace_folders().items():
            try:
                description = read_description(folder)
            except MyXTTSError:  # being written, or damaged: `myxtts voice show` explains it
                continue
            can_clone = description.model_spec().has_speakers
            identity = self._identity(folder, description) if can_clone and cloned else ""
            own = [speaker.name for speaker in cloned if speaker.voice == identity]
            is_phonemes = description.front_end["kind"] == "phonemes"
            listed.append(self._entry(name, description.languages, description.speakers, own, can_clone, is_phonemes))
        return listed

    def _identity(self, folder: Path, description: VoiceDescription) -> str:
        """Which speakers belong to a voice; without a name of its own, its file is read once."""
        key = (folder, (folder / DESCRIPTION_NAME).stat().st_mtime_ns)
        if key not in self._identities:
            self._identities[key] = voice_identity(folder, description)
        return self._identities[key]

    @staticmethod
    def _entry(name, languages, speakers, cloned, can_clone, has_phonemes) -> dict[str, Any]:
        return {
            "id": name,
            "languages": list(languages),
            "speakers": list(speakers),
            "cloned": cloned,
            "can_clone": can_clone,
            "has_phonemes": has_phonemes,
        }

    def voice(self, name: str | None) -> Voice:
        """A voice by the name that `describe` gives; the name is looked up, never used as a path."""
        pool = self.engine.voices
        if name is None or name in pool.loaded:
            return pool.loaded[name or pool.default]
        folder = self.folder(name)
        key = (folder, (folder / DESCRIPTION_NAME).stat().st_mtime_ns)  # a training replaces its voice
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = Voice.load(folder)
                while len(self._loaded) > MOST_LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(key)
            return self._loaded[key]

    def speaking(self, body: SpeakBody) -> tuple[Voice, SpeechOptions]:
        """The voice with the studio's lexicon, and the options of a request."""
        voice = self.voice(body.voice)
        language = check_language(body.language, voice.languages)
        lexicon = self.lexicon(language)
        if lexicon and voice.speaks_phonemes:
            voice = voice.with_lexicon(lexicon)
        speaker: str | Speaker | None = body.speaker or None
        if isinstance(speaker, str) and speaker.startswith(CLONE_PREFIX):
            speaker = self.clone(speaker.removeprefix(CLONE_PREFIX)).speaker
        elif isinstance(speaker, str) and speaker not in voice.speakers:
            speaker = self.engine.voices.cloned(speaker)
        return voice, SpeechOptions(language=language, speaker=speaker, speed=body.speed, seed=body.seed)

    # --- pronunciations -----------------------------------------------------------------------------------------------

    def lexicon_path(self, language: str) -> Path:
        """The file of a language that a voice has."""
        return self._workspace / f"lexicon-{language}.tsv"

    def lexicon(self, language: str) -> Lexicon:
        """The corrections of a language."""
        if language not in self._lexicons:
            path = self.lexicon_path(language)
            self._lexicons[language] = load_lexicon(path) if path.is_file() else Lexicon()
        return self._lexicons[language]

    def correct(self, body: LexiconBody) -> None:
        """Save how a word is read, or forget it."""
        voice = self.voice(body.voice)
        language = check_language(body.language, voice.languages)
        word, phonemes = body.word.strip(), "".join(body.phonemes.split())
        if not word or len(word.split()) > 1 or "\t" in word:
            raise TextError(f"Expected one word. Received: {body.word!r:.60}.")
        known = set(voice.tokenizer.symbols.symbols) - set(PAUSES)
        unknown = [
            each for each in phonemes if not known.issuperset(unicodedata.normalize("NFD", each)) and each not in known
        ]
        if unknown:
            raise TextError(
                f"This voice does not have the sounds {' '.join(dict.fromkeys(unknown))}. Use the sounds that are listed."
            )
        if phonemes and not any(map(is_sound, phonemes)):
            raise TextError(f"Expected the phonemes of a word. Received: {body.phonemes!r:.60}.")
        with self._lock:
            entries = dict(self.lexicon(language).entries)
            entries.pop(lexicon_key(word), None)
            if phonemes:
                entries[lexicon_key(word)] = phonemes
            lines = "".join(f"{key}\t{value}\n" for key, value in sorted(entries.items()))
            try:
                write_atomically(self.lexicon_path(language), LEXICON_HEADER + lines)
            except OSError as error:
                raise TextError(
                    f"The lexicon {self.lexicon_path(language)} cannot be written: {cause_of(error)}. Check its permissions."
                ) from None
            self._lexicons[language] = Lexicon(entries)

    def reading(self, name: str | None, language: str | None, text: str) -> dict[str, Any]:
        """How a voice reads each word of a short text, and the sounds that it has."""
        voice = self.voice(name)
        language = check_language(language, voice.languages)
        lexicon = self.lexicon(language)
        if lexicon and voice.speaks_phonemes:
            voice = voice.with_lexicon(lexicon)
        words = _SPOKEN_WORD.findall(normalize_text(text[:200], language))
        symbols = voice.tokenizer.front_end.symbols_of(words, language)
        return {
            "words": [
                {
                    "word": word,
                    "phonemes": "".join(found).strip(PAUSES),
                    "is_corrected": lexicon.phonemes_of(word) is not None,
                }
                for word, found in zip(words, symbols, strict=True)
            ],
            "sounds": [
                each for each in voice.tokenizer.symbols.symbols[2:] if each not in (WORD_BOUNDARY, *PAUSE_SYMBOLS)
            ],
        }

    # --- clones -------------------------------------------------------------------------------------------------------

    async def add_clone(self, name: str | None, upload: UploadFile) -> tuple[str, float]:
        """Take an uploaded reference in; returns its id and its seconds."""
        voice = await asyncio.to_thread(self.voice, name)
        recording = Audio(*await decode_upload(upload, READ_SECONDS))
        speaker = await self.engine.run_now(lambda: voice.clone(recording))
        clone_id = uuid.uuid4().hex
        self._clones[clone_id] = _Clone(recording, name or self.engine.voices.default, speaker)
        while len(self._clones) > MOST_CLONES:
            self._clones.popitem(last=False)
        return clone_id, recording.seconds

    def clone(self, clone_id: str) -> _Clone:
        """An uploaded reference."""
        clone = self._clones.get(clone_id)
        if clone is None:
            raise VoiceError("The reference is no longer in memory. Add it again.")
        return clone

    def similarity(self, clone: _Clone, samples: np.ndarray, sample_rate: int) -> dict[str, Any]:
        """How much speech sounds like its reference: by an independent encoder, or else by the voice's own."""
        if self._compare is not None:
            value = self._compare(*clone.recording, samples, sample_rate)
            return {"value": value, "is_independent": True}
        try:
            vector = self.voice(clone.voice).clone(Audio(samples, sample_rate)).vector
        except AudioError:  # too short to be compared
            return {"value": None, "is_independent": False}
        norm = float(np.linalg.norm(vector) * np.linalg.norm(clone.speaker.vector))
        return {"value": float(vector @ clone.speaker.vector) / max(norm, 1e-9), "is_independent": False}
