"""The Wyoming server announced by zeroconf, found and used by another process as Home Assistant does it."""

import asyncio
import sys

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("zeroconf", reason="the extra `discovery` is not installed")
pytest.importorskip("wyoming", reason="the package wyoming is not installed")

from myxtts.serving.settings import Settings
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.wyoming import run_wyoming

CLIENT = """
import asyncio, queue, sys
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize
from zeroconf import ServiceBrowser, Zeroconf

found = queue.Queue()

class Listener:
    def add_service(self, zeroconf, kind, name):
        info = zeroconf.get_service_info(kind, name)
        if info is not None and info.port == int(sys.argv[1]):
            found.put(info)

    update_service = remove_service = lambda *_: None

async def use(address, port):
    async with AsyncTcpClient(address, port) as client:
        await client.write_event(Describe().event())
        print(Info.from_event(await client.read_event()).tts[0].name)
        await client.write_event(Synthesize(text="hello").event())
        while (event := await client.read_event()).type != "audio-stop":
            print(event.type)

zeroconf = Zeroconf(interfaces=["127.0.0.1"])
browser = ServiceBrowser(zeroconf, "_wyoming._tcp.local.", Listener())
info = found.get(timeout=30)
asyncio.run(use(info.parsed_addresses()[0], info.port))
zeroconf.close()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_announced_server_is_found_and_speaks(pool, host, unused_port):
    async def run() -> str:
        engine = SpeechEngine(pool, Settings(host=host, wyoming_port=unused_port, announces_wyoming=True, workers=1))
        async with run_wyoming(engine):
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CLIENT, str(unused_port), stdout=asyncio.subprocess.PIPE
            )
            output, _ = await client.communicate()
        engine.close()
        assert client.returncode == 0
        return output.decode()

    lines = asyncio.run(run()).split()
    assert lines[:2] == ["myxtts", "audio-start"]
    assert "audio-chunk" in lines


def test_a_network_that_cannot_be_announced_in_is_one_line_and_the_server_runs(pool, monkeypatch, caplog, unused_port):
    def fail(*_, **__):
        raise OSError("Network is unreachable")

    monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf", fail)

    async def run() -> None:
        engine = SpeechEngine(
            pool, Settings(host="127.0.0.1", wyoming_port=unused_port, announces_wyoming=True, workers=1)
        )
        async with run_wyoming(engine):
            _, writer = await asyncio.open_connection("127.0.0.1", unused_port)
            writer.close()
        engine.close()

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "The Wyoming server cannot be announced (Network is unreachable). Enter its address in the client."
    ]
