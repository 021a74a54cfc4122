"""Debian's prompts become a corpus, from a tree or from .deb files; archives cannot write elsewhere."""

import gzip
import io
import shutil
import subprocess
import tarfile

import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.asterisk import build_asterisk_corpus, read_deb, spoken_text
from myxtts.corpus.corpus import read_manifest
from myxtts.errors import CorpusError
from tests.pyav import needs_pyav


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("at [@]", "en", "at"),
        ("[!] punto esclamativo", "it", "punto esclamativo"),
        ("Sus saludos [temporales] estan", "es", "Sus saludos temporales estan"),
        ('IAX (note: does not say "2")', "en", "IAX"),
        ("Fine. (a beep follows).", "en", "Fine."),
        ("press * or #, now", "en", "press star or pound, now"),
        ("(1 second of silence)", "en", "[1 second of silence]"),
        ("<beep ascending>", "en", "[beep ascending]"),
        ("Two  spaces. Then more...", "en", "Two spaces. Then more..."),
    ],
)
def test_spoken_text_is_what_is_said(text, language, spoken):
    assert spoken_text(text, language) == spoken


SPEECH = bytes(range(256)) * 40
TRANSCRIPTS = {
    "en": "; comment\nhello: Hello.\ndigits/1: one\nbeep: [a beep]\nno-audio: Nothing recorded.\nhello: Again.\n",
    "es": "hello: Hola.\nmute:\n",
}
VOICES = {"en": "en_US_f_Allison", "es": "es_MX_f_Allison"}
PROMPTS = {"en": ("hello", "digits/1", "beep", "unwritten"), "es": ("hello", "mute")}


def package_files(language):
    """Files of the two packages of a language, by their path below the root."""
    files = {f"usr/share/asterisk/sounds/{VOICES[language]}/{name}.g722": SPEECH for name in PROMPTS[language]}
    documents = f"usr/share/doc/asterisk-core-sounds-{language}"
    return files | {
        f"{documents}/core-sounds-{language}.txt.gz": gzip.compress(TRANSCRIPTS[language].encode()),
        f"{documents}/copyright": b"Copyright: somebody\nLicense: CC-BY-SA-3.0\n",
    }


def make_deb(path, files, compression="xz", links=()):
    """A Debian package as dpkg-deb writes it: an ar archive with a tar in it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w" if compression == "zst" else f"w:{compression}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    data = stream.getvalue()
    if compression == "zst":
        data = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout
    content = b"!<arch>\n"
    for name, part in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (f"data.tar.{compression}", data)):
        content += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n".encode() + part + b"\n" * (len(part) % 2)
        )
    path.write_bytes(content)
    return path


def make_tree(root, languages=("en", "es")):
    for language in languages:
        for name, content in package_files(language).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    return root


def check_two_languages(summary):
    assert (summary.clips, summary.clips_by_language, summary.speakers) == (3, {"en": 2, "es": 1}, ("Allison",))
    manifest = read_manifest(summary.folder)
    assert {each.id: (each.text, each.language, each.speaker) for each in manifest.utterances} == {
        "en_hello": ("Hello.", "en", "Allison"),
        "en_digits_1": ("one", "en", "Allison"),
        "es_hello": ("Hola.", "es", "Allison"),
    }
    samples, rate = read_audio(manifest.utterances[0].path)
    assert (len(samples), rate) == (2 * len(SPEECH), 16000)
    assert sorted((each.id, each.reason) for each in summary.rejected) == [
        ("en_beep", "not speech"),
        ("en_hello", "duplicate id"),
        ("en_no-audio", "missing"),
        ("en_unwritten", "empty text"),
        ("es_mute", "empty text"),
    ]
    assert "CC-BY-SA-3.0" in manifest.license
    assert "Allison Smith" in manifest.attribution


@needs_pyav
def test_prompts_from_an_installed_tree(tmp_path):
    calls = []
    root = make_tree(tmp_path / "root")
    summary = build_asterisk_corpus(
        tmp_path / "out", ["en", "es"], sounds_root=root, progress=lambda *call: calls.append(call)
    )
    check_two_languages(summary)
    assert calls[-1] == (6, 6)


NEEDS_ZSTD = pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")


@needs_pyav
@pytest.mark.parametrize("compression", ["xz", "gz", pytest.param("zst", marks=NEEDS_ZSTD)])
def test_prompts_from_deb_files(tmp_path, compression):
    debs = [make_deb(tmp_path / f"{each}.deb", package_files(each), compression) for each in ("en", "es")]
    check_two_languages(build_asterisk_corpus(tmp_path / "out", ["en", "es"], debs=debs))


@needs_pyav
def test_prompts_as_ogg_with_sentences_held_out(tmp_path):
    root = make_tree(tmp_path / "root", ["en"])
    lines = [f"word{chr(97 + number)}: This is sentence {chr(97 + number)} here." for number in range(10)]
    documents = root / "usr/share/doc/asterisk-core-sounds-en"
    (documents / "core-sounds-en.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for number in range(10):
        prompt = root / f"usr/share/asterisk/sounds/en_US_f_Allison/word{chr(97 + number)}.g722"
        prompt.write_bytes(SPEECH * (number + 1))
    summary = build_asterisk_corpus(
        tmp_path / "out", ["en"], sounds_root=root, audio_format="ogg", quality=0.3, held_out=5
    )
    held_out = read_manifest(summary.folder, split="validation").utterances
    assert [each.id for each in held_out] == [f"en_word{letter}" for letter in "acegi"]  # j is too long
    assert len(read_manifest(summary.folder, split="train").utterances) == 5
    assert held_out[0].path.suffix == ".ogg"


def test_missing_packages_are_named_with_the_command_that_installs_them(tmp_path):
    root = make_tree(tmp_path / "root", ["en"])
    with pytest.raises(CorpusError, match="apt-get install asterisk-core-sounds-fr asterisk-core-sounds-fr-g722"):
        build_asterisk_corpus(tmp_path / "out", ["en", "fr"], sounds_root=root)


def test_an_unknown_language_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="xx"):
        build_asterisk_corpus(tmp_path / "out", ["xx"], sounds_root=tmp_path)


@pytest.mark.parametrize("content", [b"no archive", b"!<arch>\n", b""])
def test_a_file_that_is_no_package_is_refused(tmp_path, content):
    (tmp_path / "x.deb").write_bytes(content)
    with pytest.raises(CorpusError, match="not a Debian package"):
        build_asterisk_corpus(tmp_path / "out", ["en"], debs=[tmp_path / "x.deb"])


def cut_short(content):
    return content[:-300]


def change_the_middle(content):
    middle = len(content) // 2
    return content[:middle] + bytes(64) + content[middle + 64 :]


@pytest.mark.parametrize("damage", [cut_short, change_the_middle])
@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_a_damaged_package_is_refused(tmp_path, damage, compression):
    deb = make_deb(tmp_path / "x.deb", package_files("en"), compression)
    deb.write_bytes(damage(deb.read_bytes()))
    with pytest.raises(CorpusError, match="cannot be read as a Debian package"):
        list(read_deb(deb))


def test_damaged_transcripts_are_refused(tmp_path):
    root = make_tree(tmp_path / "root", ["en"])
    path = root / "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CorpusError, match="damaged"):
        build_asterisk_corpus(tmp_path / "out", ["en"], sounds_root=root)


@needs_pyav
def test_names_in_an_archive_cannot_leave_the_folder(tmp_path):
    voice = "usr/share/asterisk/sounds/en_US_f_Allison"
    files = package_files("en") | {f"{voice}/../../../../evil.g722": SPEECH, f"{voice}//etc/evil.g722": SPEECH}
    texts = TRANSCRIPTS["en"] + "../../../../evil: Evil.\n/etc/evil: Evil.\n"
    files["usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"] = gzip.compress(texts.encode())
    deb = make_deb(tmp_path / "x.deb", files, links=[(f"{voice}/passwd.g722", "/etc/passwd")])
    summary = build_asterisk_corpus(tmp_path / "deep" / "out", ["en"], debs=[deb])
    assert summary.clips == 2
    assert {path.name for path in tmp_path.rglob("*.wav")} == {"en_hello.wav", "en_digits_1.wav"}
