"""`myxtts prepare` on machines that are set up otherwise: no home, read-only folders, other locales, other users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cache import location as cache_location
from myxtts.cache.location import cache_root, user_cache_folder
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.verify import find_cache
from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus
from myxtts.errors import CacheError
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone

OPTIONS = ["--text-symbols", "graphemes", "--num-workers", "1"]


@pytest.fixture
def corpus(tmp_path):
    make_corpus(tmp_path / "corpus", 3)
    return tmp_path / "corpus"


@pytest.fixture
def no_writing_next_to_recordings(monkeypatch):
    """As for a user who may not write into the corpus; root may, everywhere."""
    monkeypatch.setattr(cache_location, "can_be_written", lambda folder: False)


def test_without_a_home_folder_the_flag_that_helps_is_named(corpus, monkeypatch, capsys, no_writing_next_to_recordings):
    """`docker run -u 12345`: neither HOME nor an entry in the user database."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_entry(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    assert main(["prepare", str(corpus), *OPTIONS]) == EXIT_USER_ERROR
    message = capsys.readouterr().err
    assert "--cache-dir FOLDER" in message
    assert message.count("\n") == 1
    with pytest.raises(CacheError, match="no home folder"):
        cache_root(bundled_corpus(), DataConfig())


def test_a_home_that_cannot_be_written_names_the_flag_that_helps(
    corpus, tmp_path, monkeypatch, capsys, no_writing_next_to_recordings
):
    (tmp_path / "home").write_text("a file, where even root can make no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert main(["prepare", str(corpus), *OPTIONS]) == EXIT_USER_ERROR
    message = capsys.readouterr().err
    assert "--cache-dir FOLDER" in message
    assert "Run `myxtts prepare` again" not in message


def test_the_folder_for_caches_is_that_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_folder() == tmp_path / "myxtts"


@pytest.mark.parametrize("has_bad_clip", [False, True])
def test_a_cache_that_another_user_made_is_used_while_it_is_up_to_date(corpus, tmp_path, monkeypatch, has_bad_clip):
    if has_bad_clip:
        (corpus / "wavs" / "clip001.wav").write_text("nothing")
    theirs = prepare_cache(tiny_config(), corpus)
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}
    monkeypatch.setattr(cache_location, "can_be_written", lambda folder: corpus not in (folder, *folder.parents))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    cache = prepare_cache(tiny_config(), corpus)
    assert cache.folder == theirs.folder
    assert (cache.num_clips, cache.report.outcome.kept) == (theirs.num_clips, theirs.num_clips)
    assert cache.report.rejections == theirs.report.rejections
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*")} == before
    assert not (tmp_path / "mine").exists()
    assert find_cache(tiny_config(), corpus).folder == theirs.folder

    write_tone(corpus / "wavs" / "new.wav")
    write_metadata(corpus, {"clip000": "one", "new": "two"})
    cache = prepare_cache(tiny_config(), corpus)
    assert cache.folder.is_relative_to(tmp_path / "mine")
    assert cache.num_clips == 2


def test_a_damaged_cache_of_another_user_is_not_used(corpus, tmp_path, monkeypatch):
    theirs = prepare_cache(tiny_config(), corpus)
    (theirs.folder / "cache.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(cache_location, "can_be_written", lambda folder: corpus not in (folder, *folder.parents))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert prepare_cache(tiny_config(), corpus).folder.is_relative_to(tmp_path / "mine")


def run_command(arguments, **environment):
    """In a process of its own, with nothing of this one's environment but what Python needs."""
    package = str(Path(cache_location.__file__).parents[2])
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": package, "HOME": os.environ.get("HOME", "/tmp")}
    command = [sys.executable, "-m", "myxtts.cli", *arguments]
    return subprocess.run(command, env=kept | environment, capture_output=True, check=False, timeout=300)


ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_that_cannot_name_the_recordings_is_named_with_what_to_set(corpus):
    shutil.move(corpus / "wavs" / "clip000.wav", corpus / "wavs" / "سلام.wav")
    write_metadata(corpus, {"سلام": "one", "clip001": "two"})
    result = run_command(["prepare", str(corpus), *OPTIONS], **ASCII_ONLY)
    assert result.returncode == EXIT_USER_ERROR
    assert b"PYTHONUTF8=1" in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert run_command(["prepare", str(corpus), *OPTIONS], **ASCII_ONLY | {"PYTHONUTF8": "1"}).returncode == 0


def test_characters_that_the_locale_lacks_are_printed_as_escapes(corpus):
    write_metadata(corpus, {"clip000": "one ☃", "clip001": "two"})
    result = run_command(["prepare", str(corpus), *OPTIONS], **ASCII_ONLY)
    assert result.returncode == 0, result.stderr
    assert rb"'\u2603' 1" in result.stdout


def test_train_takes_the_folder_for_caches_as_a_flag(capsys, tmp_path):
    assert main(["config", "--cache-dir", str(tmp_path / "caches")]) == 0
    assert f"cache_dir: {tmp_path / 'caches'}" in capsys.readouterr().out


def test_retry_is_a_flag_of_prepare(corpus, capsys):
    assert main(["prepare", str(corpus), *OPTIONS, "--retry"]) == 0
    assert "3 added" in capsys.readouterr().out


def test_clips_beyond_the_limits_are_counted_and_listed_without_preparing_again(corpus, capsys):
    assert main(["prepare", str(corpus), *OPTIONS]) == 0
    capsys.readouterr()
    assert main(["prepare", str(corpus), *OPTIONS, "--max-text-length", "7"]) == 0
    printed = capsys.readouterr().out
    assert "3 unchanged" in printed
    assert "1 rejected: longer than max_text_length 1" in printed
    (table,) = corpus.glob(".myxtts/cache/*/rejected.csv")
    assert table.read_text().count("longer than max_text_length") == 1
