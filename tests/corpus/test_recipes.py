"""The bundled corpus is what it says; the recipes write folders that are read back; archives cannot write elsewhere."""

import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile

import numpy as np
import pytest

from myxtts.audio.files import probe_audio, read_audio, write_audio
from myxtts.corpus.asterisk import spoken_text
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import build_asterisk_corpus, build_folder_corpus, bundled_corpus
from myxtts.errors import CorpusError


def words(text):
    return re.sub(r"\W+", " ", text).casefold().split()


def test_the_bundled_corpus_lists_563_prompts_of_one_speaker():
    manifest = read_manifest(bundled_corpus(), split="all")
    assert len(manifest.utterances) + len(manifest.rejected) == 563
    assert {each.reason for each in manifest.rejected} == {"not speech"}
    assert len(manifest.rejected) == 12  # ten silences and two beeps
    assert {(each.speaker, each.language) for each in manifest.utterances} == {("Allison", "en")}


def test_the_bundled_corpus_is_25_minutes_at_16_khz_in_10_mb():
    lengths = [probe_audio(path) for path in sorted((bundled_corpus() / "wavs").iterdir())]
    assert {rate for _, rate in lengths} == {16000}
    assert sum(samples for samples, _ in lengths) / 16000 == pytest.approx(25.2 * 60, abs=6)
    size = sum(path.stat().st_size for path in bundled_corpus().rglob("*") if path.is_file())
    assert size <= 10_000_000


def test_the_held_out_list_has_60_sentences_that_training_never_sees():
    train = read_manifest(bundled_corpus(), split="train").utterances
    held_out = read_manifest(bundled_corpus(), split="validation").utterances
    assert len(held_out) == 60
    assert len(train) + len(held_out) == 551
    assert min(len(words(each.text)) for each in held_out) >= 4
    assert not {tuple(words(each.text)) for each in train} & {tuple(words(each.text)) for each in held_out}


def test_the_bundled_corpus_carries_licence_and_attribution():
    manifest = read_manifest(bundled_corpus())
    assert "CREATIVE COMMONS PUBLIC LICENSE" in manifest.license
    assert "Allison Smith" in manifest.attribution
    assert "CC-BY-SA-3.0" in manifest.attribution


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


def test_prompts_from_an_installed_tree(tmp_path):
    calls = []
    root = make_tree(tmp_path / "root")
    summary = build_asterisk_corpus(
        tmp_path / "out", ["en", "es"], sounds_root=root, progress=lambda *call: calls.append(call)
    )
    check_two_languages(summary)
    assert calls[-1] == (6, 6)


NEEDS_ZSTD = pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")


@pytest.mark.parametrize("compression", ["xz", "gz", pytest.param("zst", marks=NEEDS_ZSTD)])
def test_prompts_from_deb_files(tmp_path, compression):
    debs = [make_deb(tmp_path / f"{each}.deb", package_files(each), compression) for each in ("en", "es")]
    check_two_languages(build_asterisk_corpus(tmp_path / "out", ["en", "es"], debs=debs))


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
        build_asterisk_corpus(tmp_path / "out", ["en"], debs=[deb])


def test_damaged_transcripts_are_refused(tmp_path):
    root = make_tree(tmp_path / "root", ["en"])
    path = root / "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CorpusError, match="damaged"):
        build_asterisk_corpus(tmp_path / "out", ["en"], sounds_root=root)


def test_names_in_an_archive_cannot_leave_the_folder(tmp_path):
    voice = "usr/share/asterisk/sounds/en_US_f_Allison"
    files = package_files("en") | {f"{voice}/../../../../evil.g722": SPEECH, f"{voice}//etc/evil.g722": SPEECH}
    texts = TRANSCRIPTS["en"] + "../../../../evil: Evil.\n/etc/evil: Evil.\n"
    files["usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"] = gzip.compress(texts.encode())
    deb = make_deb(tmp_path / "x.deb", files, links=[(f"{voice}/passwd.g722", "/etc/passwd")])
    summary = build_asterisk_corpus(tmp_path / "deep" / "out", ["en"], debs=[deb])
    assert summary.clips == 2
    assert {path.name for path in tmp_path.rglob("*.wav")} == {"en_hello.wav", "en_digits_1.wav"}


def tone():
    return (0.3 * np.sin(np.arange(16000) * 0.1)).astype(np.float32)


def make_pairs(folder):
    (folder / "sub").mkdir(parents=True)
    for name, text in {
        "one": b"Number | one.\n",
        "sub/two": "\ufeffشماره دو".encode(),
        "empty": b" \n",
        "bad": b"\xff",
    }.items():
        write_audio(folder / f"{name}.wav", tone(), 16000)
        (folder / f"{name}.txt").write_bytes(text)
    write_audio(folder / "alone.flac", tone(), 16000)
    (folder / "broken.wav").write_bytes(b"no audio at all")
    (folder / "broken.txt").write_text("Broken.")
    return folder


def test_a_folder_of_pairs_becomes_a_corpus_in_place(tmp_path):
    folder = make_pairs(tmp_path / "pairs")
    summary = build_folder_corpus(folder, language="Persian", speaker="me")
    assert {each.id: each.reason for each in summary.rejected} == {
        "empty": "empty text",
        "bad": "invalid UTF-8",
        "alone": "empty text",
        "broken": "not audio",
    }
    manifest = read_manifest(folder)
    assert {each.id: (each.text, each.language, each.speaker) for each in manifest.utterances} == {
        "one": ("Number one.", "fa", "me"),
        "sub/two": ("شماره دو", "fa", "me"),
    }


@pytest.mark.parametrize("copy_audio", [False, True])
def test_a_folder_of_pairs_becomes_a_corpus_elsewhere(tmp_path, copy_audio):
    source = make_pairs(tmp_path / "pairs")
    before = sorted(os.listdir(source))
    build_folder_corpus(source, tmp_path / "out", language="fa", copy_audio=copy_audio)
    manifest = read_manifest(tmp_path / "out")
    assert {each.id for each in manifest.utterances} == {"one", "sub/two"}
    assert os.path.samefile(manifest.utterances[0].path, source / "one.wav") != copy_audio
    assert sorted(os.listdir(source)) == before


def test_subfolders_of_a_folder_of_pairs_are_speakers(tmp_path):
    for name in ("anna/chapter/1", "anna/2", "ben/1", "3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_audio(tmp_path / f"{name}.wav", tone(), 16000)
        (tmp_path / f"{name}.txt").write_text("Hello.")
    expected = {"anna/chapter/1": "anna", "anna/2": "anna", "ben/1": "ben", "3": "speaker"}
    (tmp_path / "notes.csv").write_text("who,what\n")
    assert {each.id: each.speaker for each in read_manifest(tmp_path).utterances} == expected
    assert build_folder_corpus(tmp_path, tmp_path / "out").speakers == ("anna", "ben", "speaker")
    assert {each.id: each.speaker for each in read_manifest(tmp_path / "out").utterances} == expected


def test_a_folder_of_pairs_in_another_script_is_an_error_with_the_flag(tmp_path):
    write_audio(tmp_path / "one.wav", tone(), 16000)
    (tmp_path / "one.txt").write_text("شماره یک", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"wrong script 1 \(Arabic letters.*--language fa"):
        build_folder_corpus(tmp_path)
    assert not (tmp_path / "metadata.csv").exists()


def test_text_files_in_a_code_page_are_read_and_announced(tmp_path):
    for number, text in enumerate(("شماره يک", "گربه روي ديوار")):
        write_audio(tmp_path / f"{number}.wav", tone(), 16000)
        (tmp_path / f"{number}.txt").write_bytes(text.encode("cp1256"))
    summary = build_folder_corpus(tmp_path, language="fa")
    assert (summary.clips, summary.rejected) == (2, ())
    assert "2 .txt files are not UTF-8 and were read as Windows-1256, e.g. شماره يک" in summary.notices[0]


@pytest.mark.timeout(60)
def test_a_pipe_as_a_text_file_is_rejected_without_waiting(tmp_path):
    for name in ("one", "two"):
        write_audio(tmp_path / f"{name}.wav", tone(), 16000)
    (tmp_path / "one.txt").write_text("One.")
    os.mkfifo(tmp_path / "two.txt")
    assert [each.detail for each in build_folder_corpus(tmp_path).rejected] == [
        "two.txt cannot be read: it is a pipe, not a regular file"
    ]


def test_an_existing_metadata_file_is_not_overwritten(tmp_path):
    folder = make_pairs(tmp_path / "pairs")
    (folder / "metadata.csv").write_text("precious")
    with pytest.raises(CorpusError, match="already"):
        build_folder_corpus(folder)
    assert (folder / "metadata.csv").read_text() == "precious"


def test_a_folder_without_pairs_is_an_error(tmp_path):
    write_audio(tmp_path / "alone.wav", tone(), 16000)
    with pytest.raises(CorpusError, match="same name"):
        build_folder_corpus(tmp_path)
