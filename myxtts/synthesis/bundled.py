"""The voices that come with MyXTTS, by name, and the voice and language of a text that names none.

English is spoken by `kathleen` and everything else by `base`: the first voice in the order of `NAMES` that has the language.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import myxtts
from myxtts.errors import VoiceError
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, VoiceDescription, read_description
from myxtts.text.languages import likely_script, match_language

BUNDLED = "bundled"
"""Stands for the bundled voice of a language."""
NAMES = ("kathleen", "base", "default")
"""Names of bundled voices; a copy of MyXTTS may lack some of them."""
LOOKED_AT_CHARACTERS = 400
"""Characters of a text from which its language is guessed. Chosen; not measured."""
_SCRIPTS = {
    "ARABIC": "Arab",
    "LATIN": "Latn",
    "CYRILLIC": "Cyrl",
    "GREEK": "Grek",
    "HEBREW": "Hebr",
    "DEVANAGARI": "Deva",
}
"""First word of a letter's Unicode name → ISO 15924."""
_SCRIPTS_OF = {"en": "Latn", "fa": "Arab", "de": "Latn", "nl": "Latn", "pt": "Latn", "pt-br": "Latn"}
"""Languages of the bundled voices: the table of all languages takes longer to import than these take to look up."""


def bundled_voices() -> dict[str, Path]:
    """Name → folder of every voice that comes with this copy of MyXTTS; a `VoiceError` if there is none."""
    folder = Path(myxtts.__file__).parent / "assets" / "voices"
    found = {name: folder / name for name in NAMES if (folder / name / DESCRIPTION_NAME).is_file()}
    if not found:
        raise VoiceError(
            "No voice comes with this copy of MyXTTS. Train one (python train_main.py), export it (myxtts voice export "
            "checkpointsmain my-voice), and name it: --voice my-voice."
        )
    return found


def bundled_voice(*languages: str) -> Path:
    """The folder of the bundled voice for these languages; without any, the first one, which is English."""
    folders = bundled_voices()
    spoken = {name: read_description(folder).languages for name, folder in folders.items()}
    return folders[first_voice_with(languages, spoken)]


def bundled_origin(*languages: str) -> Path:
    """The folder of the bundled voice that new voices of these languages start from: the one with most speakers."""
    folders = bundled_voices()
    described = {name: read_description(folder) for name, folder in folders.items()}
    suitable = {
        name: each
        for name, each in described.items()
        if all(match_language(language, each.languages) in each.languages for language in languages)
    } or described
    return folders[max(suitable, key=lambda name: len(suitable[name].speakers))]


def bundled_voice_for(
    text: str, language: str | None, suits: Callable[[Path, VoiceDescription], bool] = lambda folder, description: True
) -> Path:
    """The folder of the bundled voice that speaks a text, among those that suit if there are any."""
    folders = bundled_voices()
    described = {name: read_description(folder) for name, folder in folders.items()}
    suitable = {name: each for name, each in described.items() if suits(folders[name], each)} or described
    return folders[voice_for_text(text, language, {name: each.languages for name, each in suitable.items()})]


def voice_for_text(text: str, language: str | None, spoken: Mapping[str, Sequence[str]]) -> str:
    """The name of the voice that speaks a text: by the language, otherwise by the script of the text.

    Args:
        spoken: the languages of each voice by its name.
    """
    every = list(dict.fromkeys(code for own in spoken.values() for code in own))
    language = language or guess_language(text, every)
    return first_voice_with(() if language is None else (language,), spoken)


def first_voice_with(languages: Sequence[str], spoken: Mapping[str, Sequence[str]]) -> str:
    """The name of the first voice that has all the languages. If none has, that of the voice with most languages."""
    for name, own in spoken.items():
        if all(match_language(language, own) in own for language in languages):
            return name
    return max(spoken, key=lambda name: len(spoken[name]))


def find_voice(name: str | Path | None, *languages: str) -> Path:
    """The folder of a voice given by folder or by the name of a bundled one; None or `bundled`: that of the languages.

    A bundled voice takes precedence over a folder of the same name, which can be given as `./base`.
    """
    if name is None or str(name) == BUNDLED:
        return bundled_voice(*languages)
    if str(name) in NAMES:
        folders = bundled_voices()
        if str(name) in folders:
            return folders[str(name)]
        if not (Path(name) / DESCRIPTION_NAME).is_file():
            raise VoiceError(f"The voice {str(name)!r} is not in this copy of MyXTTS. It has: {', '.join(folders)}.")
    return Path(name)


def guess_language(text: str, languages: Sequence[str]) -> str | None:
    """The first of the languages that is written in the script of most letters of a text; None: no guess."""
    if len(languages) < 2:
        return None
    counts: dict[str, int] = {}
    for character in text[:LOOKED_AT_CHARACTERS]:
        if character.isalpha():
            script = _SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0], "")
            counts[script] = counts.get(script, 0) + 1
    if not counts:
        return None
    script = max(counts, key=lambda each: counts[each])
    return next((code for code in languages if (_SCRIPTS_OF.get(code) or likely_script(code)) == script), None)
