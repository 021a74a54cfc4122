"""`myxtts corpus`, `prepare`, `verify` and `stats` as a user calls them."""

import json
import shutil

import numpy as np
import pytest
import soundfile

from myxtts.cache.clip_table import open_cache
from myxtts.cache.location import cache_root, user_cache_folder
from myxtts.cli import EXIT_INTERRUPTED, EXIT_USER_ERROR, main
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus
from tests.espeak import needs_espeak

OPTIONS = ["--text-symbols", "graphemes", "--num-workers", "1"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Recordings with same-named texts."""
    folder = tmp_path_factory.mktemp("pairs")
    time = np.arange(16000) / 16000
    for number, text in enumerate(["one", "two words", "three", "four", "five"]):
        soundfile.write(folder / f"clip{number}.wav", 0.3 * np.sin(2 * np.pi * (200 + 50 * number) * time), 16000)
        (folder / f"clip{number}.txt").write_text(text, encoding="utf-8")
    (folder / "alone.txt").write_text("no recording", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def prepared(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    assert main(["corpus", "folder", str(pairs), str(folder)]) == 0
    assert main(["prepare", str(folder), *OPTIONS]) == 0
    return folder


@pytest.fixture
def corpus(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "corpus")
    return tmp_path / "corpus"


def frames_path(corpus):
    return open_cache(next(corpus.glob(".myxtts/cache/*/"))).frames_path


def test_a_folder_of_pairs_becomes_a_corpus(pairs, tmp_path, capsys):
    assert main(["corpus", "folder", str(pairs), str(tmp_path / "out"), "--speaker", "ann", "--language", "de"]) == 0
    assert "5 clips" in capsys.readouterr().out
    assert "ann|de" in (tmp_path / "out" / "metadata.csv").read_text(encoding="utf-8")


def test_missing_prompt_packages_are_reported_with_the_line_that_installs_them(tmp_path, capsys):
    empty = tmp_path / "root"
    empty.mkdir()
    arguments = ["corpus", "asterisk", str(tmp_path / "out"), "--languages", "en,fr", "--sounds-root", str(empty)]
    assert main(arguments) == EXIT_USER_ERROR
    message = capsys.readouterr().err
    assert "apt-get install" in message
    assert "asterisk-core-sounds-fr-g722" in message


def test_prepare_prints_what_it_did(corpus, capsys):
    assert main(["prepare", str(corpus), *OPTIONS]) == 0
    printed = capsys.readouterr().out
    assert "5 clips" in printed
    assert "recordings at 16000 Hz → voice at 16000 Hz; hop 256, frames of 16.0 ms; clips up to 12.8 s fit" in printed
    assert "5 unchanged" in printed


def test_prepare_names_the_file_of_rejected_clips(corpus, capsys):
    assert main(["prepare", str(corpus), *OPTIONS, "--max-text-length", "4"]) == 0
    printed = capsys.readouterr().out
    assert "longer than max_text_length 2" in printed
    assert "rejected.csv" in printed


def test_flags_win_over_the_configuration_file(corpus, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("data:\n  sample_rate: 8000\n  text_symbols: graphemes\n  num_workers: 1\n", encoding="utf-8")
    assert main(["prepare", str(corpus), "--config", str(config)]) == 0
    assert "at 8000 Hz" in capsys.readouterr().out
    assert main(["prepare", str(corpus), "--config", str(config), "--sample-rate", "16000"]) == 0
    assert "at 16000 Hz" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["/nowhere/at/all"], ["--max-text-length", "0"], ["--config", "/nowhere.yaml"]])
def test_a_mistake_is_one_message_and_exit_code_2(arguments, capsys):
    assert main(["prepare", *arguments]) == EXIT_USER_ERROR
    message = capsys.readouterr().err
    assert message.startswith("myxtts prepare: ")
    assert "Traceback" not in message


def test_an_interrupt_is_reported_and_promises_to_continue(corpus, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("myxtts.cache.prepare.prepare_cache", interrupt)
    assert main(["prepare", str(corpus), *OPTIONS]) == EXIT_INTERRUPTED
    assert "continues from there" in capsys.readouterr().err


def test_verify_of_an_intact_cache_is_0(corpus, capsys):
    assert main(["verify", str(corpus), *OPTIONS]) == 0
    assert "5 clips checked, nothing wrong" in capsys.readouterr().out


def test_verify_is_1_on_damage_then_0_after_fixing(corpus, capsys):
    path = frames_path(corpus)
    content = bytearray(path.read_bytes())
    content[2000] ^= 4
    path.write_bytes(content)
    assert main(["verify", str(corpus), *OPTIONS]) == 1
    printed = capsys.readouterr().out
    assert "flipped bits" in printed
    assert "damaged clips: clip" in printed
    assert main(["verify", str(corpus), *OPTIONS, "--fix"]) == 0
    assert "repaired: 1 clips prepared again, 4 kept" in capsys.readouterr().out
    assert main(["verify", str(corpus), *OPTIONS]) == 0


def test_verify_of_a_corpus_that_was_never_prepared_is_a_mistake(corpus, capsys):
    shutil.rmtree(corpus / ".myxtts")
    assert main(["verify", str(corpus), *OPTIONS]) == EXIT_USER_ERROR
    assert "myxtts prepare" in capsys.readouterr().err


def test_stats_shows_lengths_plans_and_settings(corpus, tmp_path, capsys):
    png, numbers = tmp_path / "lengths.png", tmp_path / "numbers.json"
    assert main(["stats", str(corpus), *OPTIONS, "--png", str(png), "--json", str(numbers)]) == 0
    printed = capsys.readouterr().out
    for expected in ("p99", "buckets 8", "packed", "recommended settings", "max_mel_frames:"):
        assert expected in printed
    assert png.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text(encoding="utf-8"))["clips"] == 5


def test_stats_that_cannot_be_written_are_a_mistake(corpus, capsys):
    assert main(["stats", str(corpus), *OPTIONS, "--json", "/nowhere/at/all.json"]) == EXIT_USER_ERROR
    assert "cannot be written" in capsys.readouterr().err


def test_the_bundled_corpus_is_cached_below_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_folder() == tmp_path / "myxtts"
    assert cache_root(bundled_corpus(), DataConfig()).is_relative_to(tmp_path / "myxtts")


def test_a_folder_that_cannot_be_written_is_cached_below_the_users_folder(monkeypatch, tmp_path, corpus):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr("myxtts.cache.location.os.access", lambda path, mode: False)
    assert cache_root(corpus, DataConfig()).is_relative_to(tmp_path / "user")


def write_corpus(folder, texts, encoding="utf-8"):
    time = np.arange(32000) / 16000
    (folder / "wavs").mkdir(parents=True)
    for number in range(len(texts)):
        soundfile.write(folder / "wavs" / f"{number}.wav", 0.3 * np.sin(2 * np.pi * (200 + 50 * number) * time), 16000)
    lines = "".join(f"{number}|{text}\n" for number, text in enumerate(texts))
    (folder / "metadata.csv").write_bytes(lines.encode(encoding))
    return folder


PERSIAN = ["سلام دنيا", "گربه روي ديوار", "هوا خوب است", "کتاب را بده"]


def test_the_language_may_be_given_by_name_and_a_code_page_is_announced(tmp_path, capsys):
    folder = write_corpus(tmp_path / "corpus", PERSIAN, "cp1256")
    assert main(["prepare", str(folder), "--language", "farsi", *OPTIONS]) == 0
    captured = capsys.readouterr()
    assert "4 clips" in captured.out
    assert "metadata.csv is not UTF-8 and was read as Windows-1256, e.g. 0|سلام دنيا" in captured.err
    assert open_cache(next(folder.glob(".myxtts/cache/*/"))).languages == ("fa",)


def test_a_misspelled_language_is_rejected_with_the_nearest_name(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["prepare", str(tmp_path), "--language", "engish"])
    assert caught.value.code == EXIT_USER_ERROR
    assert "Unknown language 'engish'. Did you mean en (English)?" in capsys.readouterr().err


def test_texts_in_another_script_are_counted_with_the_flag_that_helps(tmp_path, capsys):
    folder = write_corpus(tmp_path / "corpus", ["hello there", "good day", *PERSIAN])
    assert main(["prepare", str(folder), *OPTIONS]) == 0
    assert "4 rejected: wrong script 4 (Arabic letters, but the language is 'en'. " in (out := capsys.readouterr().out)
    assert "--language fa (Persian)" in out


def test_another_language_than_before_is_warned_about(tmp_path, capsys):
    folder = write_corpus(tmp_path / "corpus", ["guten tag", "auf wiedersehen"])
    assert main(["prepare", str(folder), "--language", "German", *OPTIONS]) == 0
    assert "Warning" not in capsys.readouterr().err
    assert main(["prepare", str(folder), "--language", "English", *OPTIONS]) == 0
    assert "prepared with texts in de; they are now read as en" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["prepare", "stats", "verify"])
def test_without_the_flag_the_language_of_the_prepared_corpus_is_kept_and_announced(tmp_path, capsys, command):
    folder = write_corpus(tmp_path / "corpus", ["guten tag", "auf wiedersehen"])
    for language in ("English", "German"):  # the latest counts
        assert main(["prepare", str(folder), "--language", language, *OPTIONS]) == 0
    capsys.readouterr()
    assert main([command, str(folder), *OPTIONS]) == 0
    printed = capsys.readouterr().err
    assert printed.count("Language: de, because this corpus was prepared with it.") == 1
    assert "Warning" not in printed
    cache = open_cache(next(folder.glob(".myxtts/cache/*/")))
    assert {cache.languages[number] for number in cache.language_numbers} == {"de"}


def test_letters_because_the_extra_is_missing_are_warned_about(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    folder = write_corpus(tmp_path / "corpus", ["hello there", "good day"])
    assert main(["prepare", str(folder), "--language", "de", "--num-workers", "1"]) == 0
    assert "letters instead of phonemes" in capsys.readouterr().err


@needs_espeak
def test_a_language_that_espeak_lacks_is_named_in_the_error(tmp_path, capsys):
    folder = write_corpus(tmp_path / "corpus", ["hello there", "good day"])
    assert (
        main(["prepare", str(folder), "--language", "Yoruba", "--text-symbols", "phonemes", "--num-workers", "1"]) == 2
    )
    message = capsys.readouterr().err
    assert "espeak-ng has no language 'yo'" in message
    assert "graphemes" in message
