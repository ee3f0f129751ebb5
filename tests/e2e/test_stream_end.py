"""SIGTERM while streams are open: each stream ends with a reason, and pays for no more minutes."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from mintscope.solana.blocks import WSOL
from support.processes.documented_service import DocumentedService, documented_service
from support.scenes.service import bearer

CREDITS: Final = 20
STREAMS: Final = 3
READ_S: Final = 30.0

pytestmark = pytest.mark.process


@pytest.fixture
def service(tmp_path: Path) -> Iterator[DocumentedService]:
    with documented_service(tmp_path) as service:
        yield service


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Yield the name and data of each event until the body ends."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def messages(socket: ClientConnection) -> Iterator[tuple[str, Any]]:
    """Yield the type and data of each message until the server closes the connection normally."""
    for text in socket:
        message = json.loads(text)
        yield message["type"], message["data"]


def test_streams_end_cleanly_and_cost_the_minutes_with_events(service: DocumentedService) -> None:
    token = service.mintscope(f"credits issue --credits {CREDITS}").strip()
    reported = 0
    ends = []
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=service.url, timeout=READ_S))
        streams = [
            stack.enter_context(
                client.stream("GET", f"/v1/stream?mints={WSOL}", headers=bearer(token))
            )
            for _ in range(STREAMS)
        ]
        heard = [events(stream.iter_lines()) for stream in streams]
        socket = stack.enter_context(
            connect(f"{service.url.replace('http', 'ws', 1)}/v1/stream", proxy=None)
        )
        socket.send(json.dumps({"type": "auth", "token": token, "mints": [WSOL]}))
        heard.append(messages(socket))
        for one in heard:
            name, minute = next(one)
            assert name == "minute"
            reported += minute["credits"]
        service.serve.send_signal(signal.SIGTERM)
        for one in heard:  # to its end: a body that is cut off would raise
            *_, (name, end) = one
            assert name == "end"
            reported -= end["creditsReturned"]
            ends.append(end["reason"])
        assert service.serve.wait(READ_S) == 0

    assert ends == ["shutting_down"] * (STREAMS + 1)
    (line,) = [
        each
        for each in json.loads(service.mintscope("credits list --json"))
        if each["credits"] == CREDITS
    ]
    assert line["left"] == CREDITS - reported
    assert "Traceback" not in (service.folder / "serve.log").read_text()
