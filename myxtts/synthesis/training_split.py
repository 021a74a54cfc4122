"""Which texts a voice was trained on and which clips were held out, as short hashes in voice.json.

Five bytes per text and clip: small enough for every corpus, and one text in a million is mistaken for another in a corpus of a
million texts. Case, punctuation and spacing do not count: `Hello, world!` is `hello world`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from myxtts.config.config import STRICT
from myxtts.errors import VoiceError

HASH_BYTES = 5
MOST_HASHES = 1_000_000
"""Most texts or clips that are recorded; a larger corpus is not (`is_complete` is false)."""
_LONGEST = 4 * (-(-MOST_HASHES * HASH_BYTES // 3))
_Hashes = Annotated[str, Field(max_length=_LONGEST)]
_NOT_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TrainingSplit:
    """The record of one training. Equal inputs give equal records."""

    corpus: Annotated[str, Field(max_length=200)]
    """Content id of the prepared corpus."""
    training_texts: _Hashes
    """Base64 of the sorted hashes of the texts that were trained on."""
    held_out_clips: _Hashes
    """Base64 of the sorted hashes of the held-out clips, by id and text."""
    is_complete: bool = True
    """False if training texts are missing: the corpus is too large, or the training started from a voice without a record."""

    @classmethod
    def of(cls, corpus: str, training_texts: Iterable[str], held_out: Iterable[tuple[str, str]]) -> TrainingSplit:
        """The record of a corpus: its content id, the training texts, and ids and texts of the held-out clips."""
        texts = {_hash_of(text) for text in training_texts}
        clips = {_hash_of(text, clip_id) for clip_id, text in held_out}
        is_complete = max(len(texts), len(clips)) <= MOST_HASHES
        if not is_complete:
            texts, clips = set(), set()
        return cls(corpus=corpus, training_texts=_packed(texts), held_out_clips=_packed(clips), is_complete=is_complete)

    def after(self, earlier: TrainingSplit | None) -> TrainingSplit:
        """The record of a training that started from a voice with the record `earlier` (None: without one)."""
        if earlier is None:
            return replace(self, is_complete=False)
        texts = self._texts | earlier._texts
        is_complete = self.is_complete and earlier.is_complete
        if len(texts) > MOST_HASHES:
            return replace(self, is_complete=False)
        return replace(self, training_texts=_packed(texts), is_complete=is_complete)

    @property
    def num_training_texts(self) -> int:
        """Different texts that are recorded as trained on."""
        return len(self._texts)

    @property
    def num_held_out_clips(self) -> int:
        """Clips that are recorded as held out."""
        return len(self._clips)

    def check(self) -> None:
        """Raise a `VoiceError` unless both lists of hashes can be read."""
        _ = self._texts, self._clips

    def was_trained_on(self, text: str) -> bool:
        """Whether this sentence was among the training texts."""
        return _hash_of(text) in self._texts

    def was_held_out(self, clip_id: str, text: str) -> bool:
        """Whether training held this clip out."""
        return _hash_of(text, clip_id) in self._clips

    @cached_property
    def _texts(self) -> frozenset[bytes]:
        return _unpacked(self.training_texts)

    @cached_property
    def _clips(self) -> frozenset[bytes]:
        return _unpacked(self.held_out_clips)


def _hash_of(text: str, clip_id: str = "") -> bytes:
    canonical = _NOT_LETTERS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    content = f"{clip_id}\n{canonical}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=HASH_BYTES).digest()


def _packed(hashes: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(hashes))).decode("ascii")


def _unpacked(text: str) -> frozenset[bytes]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        content = b"?"
    if len(content) % HASH_BYTES:
        raise VoiceError(
            "The record of the training split in voice.json is damaged. Copy the whole voice folder again."
        )
    return frozenset(content[start : start + HASH_BYTES] for start in range(0, len(content), HASH_BYTES))
