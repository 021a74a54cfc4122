"""`myxtts serve` and `myxtts studio`: flags become settings, and mistakes are one line before anything is loaded."""

import socket
from importlib.util import find_spec

import pytest

from myxtts.cli import build_parser, main
from myxtts.commands.serve import KEY_VARIABLE, is_loopback, settings_from
from myxtts.errors import ConfigError
from myxtts.runtime.locks import FolderLock
from myxtts.serving.settings import Settings


def settings_of(*words: str) -> Settings:
    return settings_from(build_parser("serve").parse_args(["serve", *words]))


def test_the_defaults_serve_this_machine_only():
    assert settings_of() == Settings()
    assert settings_of().host == "127.0.0.1"
    assert settings_of("--wyoming").wyoming_port == 10200
    assert settings_of("--wyoming", "1234").wyoming_port == 1234


def test_keys_come_from_a_file_and_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "one, two")
    path = tmp_path / "keys"
    path.write_text("three\n\n")
    assert settings_of("--api-keys", str(path)).api_keys == ("one", "two", "three")
    monkeypatch.delenv(KEY_VARIABLE)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="no key"):
        settings_of("--api-keys", str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_of("--api-keys", str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--announce"], "--wyoming"),
        (["--keep-recordings"], "--speakers"),
        (["--max-requests", "0"], "at least 1"),
        (["--workers", "-1"], "at least 1"),
        (["--port", "8200", "--wyoming", "8200"], "must differ"),
        (["--allowed-host", ""], "tts.example.org"),
        (["--allowed-host", "http://example.org/"], "tts.example.org"),
        (["--allowed-origin", "*"], "https://example.org"),
        (["--allowed-origin", "example.org"], "https://example.org"),
    ],
)
def test_flags_that_make_no_server_are_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        settings_of(*words)


def test_announcing_without_its_package_is_refused_before_the_server_starts(monkeypatch):
    monkeypatch.setattr("myxtts.commands.serve.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs zeroconf"):
        settings_of("--wyoming", "--announce")


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False)]
)
def test_an_announcement_that_no_other_machine_can_follow_is_known(host, expected):
    assert is_loopback(host) is expected


def test_a_file_in_place_of_the_folder_of_speakers_is_one_line(tmp_path, capsys):
    pytest.importorskip("uvicorn")
    path = tmp_path / "file"
    path.touch()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    assert main(["serve", "--port", port, "--speakers", str(path)]) == 2
    assert "--speakers must be a folder" in capsys.readouterr().err


def test_a_host_that_is_not_this_machine_is_named(capsys):
    pytest.importorskip("uvicorn")
    for host in ("256.0.0.1", "", "192.0.2.7"):
        assert main(["serve", "--host", host]) == 2
        assert "--host must be an address of this machine" in capsys.readouterr().err


def test_an_address_that_cannot_be_used_is_one_line(capsys):
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words in (["--port", port], ["--port", "99999"], ["--host", "256.0.0.1"], ["--wyoming", port]):
            assert main(["serve", *words]) == 2
            assert capsys.readouterr().err.count("\n") == 1


needs_server = pytest.mark.skipif(find_spec("fastapi") is None, reason="the extra `serve` is not installed")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@needs_server
def test_a_studio_on_a_port_that_is_taken_is_refused(tmp_path, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["studio", str(tmp_path), "--port", str(port), "--no-browser"]) == 2
    assert str(port) in capsys.readouterr().err


@needs_server
def test_a_second_studio_in_a_workspace_is_refused(tmp_path, capsys):
    with FolderLock(tmp_path, "studio.lock"):
        assert main(["studio", str(tmp_path), "--port", str(free_port()), "--no-browser"]) == 2
    assert "Another studio" in capsys.readouterr().err


@needs_server
@pytest.mark.parametrize(("flag", "value"), [("--threads", "0"), ("--corpus", "no-such-folder")])
def test_values_that_make_no_studio_are_refused(tmp_path, capsys, flag, value):
    assert main(["studio", str(tmp_path), "--port", str(free_port()), "--no-browser", flag, value]) == 2
    assert flag in capsys.readouterr().err
