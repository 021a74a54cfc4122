"""Fixed sentences of a voice to listen to: those of a voice folder, and those of a training, made by a process of its own.

`python -m myxtts.synthesis.samples VOICE OUT STEM` speaks the sentences of every language into OUT with low priority and one
thread, and prints the paths; exit code 2 with one line on standard error if it cannot.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from myxtts.errors import MyXTTSError, VoiceError
from myxtts.runtime.worker_process import NICENESS, child_environment, module_command
from myxtts.synthesis.output import AudioFileWriter, synthetic_tags
from myxtts.synthesis.voice import Voice
from myxtts.text.cleanup import base_language

SAMPLE_TEXTS = {
    "en": (
        "Thank you for calling. Please leave a message after the tone.",
        "How far is it to the station, and is it open?",
    ),
    "fa": ("سلام، حال شما چطور است؟", "امروز هوا آفتابی است و ما به کوه می‌رویم."),
    "de": ("Vielen Dank für Ihren Anruf. Bitte hinterlassen Sie eine Nachricht.", "Wie weit ist es bis zum Bahnhof?"),
    "es": ("Gracias por llamar. Por favor, deje su mensaje.", "¿Está muy lejos la estación?"),
    "fr": ("Merci de votre appel. Veuillez laisser un message.", "La gare est-elle loin d'ici?"),
    "it": ("Grazie per la chiamata. Lasciate un messaggio.", "È lontana la stazione?"),
    "nl": ("Bedankt voor het bellen. Laat een bericht achter na de toon.", "Hoe ver is het naar het station?"),
    "pt": ("Obrigado por ligar. Deixe sua mensagem após o sinal.", "A estação fica longe daqui?"),
    "ru": ("Спасибо за звонок. Пожалуйста, оставьте сообщение.", "Далеко ли до вокзала?"),
}
"""The same in every training, so that samples of different steps can be compared; a language without any is not sampled."""


def speak_sample(voice: Voice, text: str, language: str, path: Path) -> None:
    """Speak one sentence into a file that says that it is synthetic."""
    with AudioFileWriter(path, voice.sample_rate, tags=synthetic_tags(voice.name)) as file:
        file.write(voice.synthesize(text, language=language).samples)


def speak_all(voice_folder: Path, out: Path, stem: str) -> list[Path]:
    """Speak the sentences of every language of a voice into `out`/`stem`-LANGUAGE-NUMBER.wav."""
    voice = Voice.load(voice_folder)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for language in voice.languages:
        for number, text in enumerate(SAMPLE_TEXTS.get(base_language(language), ())):
            paths.append(out / f"{stem}-{language}-{number}.wav")
            speak_sample(voice, text, language, paths[-1])
    return paths


def speak_in_child(voice_folder: Path, out: Path, stem: str) -> list[Path]:
    """`speak_all` in a process of its own; a `VoiceError` with its message if it fails."""
    command = module_command("myxtts.synthesis.samples", *map(str, (voice_folder.resolve(), out.resolve(), stem)))
    done = subprocess.run(command, env=child_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise VoiceError(lines[-1] if lines else f"the process ended with exit code {done.returncode}.")
    return [out / Path(line).name for line in done.stdout.splitlines()]


def main(arguments: list[str]) -> int:
    """The child process."""
    folder, out, stem = arguments
    os.nice(NICENESS)
    try:
        paths = speak_all(Path(folder), Path(out), stem)
    except (MyXTTSError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.writelines(f"{path}\n" for path in paths)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
