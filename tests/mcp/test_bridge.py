"""The bridge of `mintscope mcp` outlives lost connections to its service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError

from mcp import Client
from mintscope.mcp.calls import PATH
from mintscope.mcp.protocol import NoService, reached, server_like
from support.fakes.raw_server import raw_server
from support.processes.listening import listening
from support.scenes.mcp_service import mcp_beside
from support.scenes.service import Service, bearer


@dataclass
class Line:
    """A line to a server, which can be cut: then it closes each connection."""

    port: int
    url: str = ""
    is_cut: bool = False
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers += [writer, far_writer]
        await asyncio.gather(passed_on(reader, far_writer), passed_on(far_reader, writer))

    def cut(self) -> None:
        self.is_cut = True
        for writer in self.writers:
            writer.close()


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await reader.read(65_536):
            writer.write(content)
    writer.close()


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    port = urlsplit(url).port
    assert port is not None
    line = Line(port)
    server = await asyncio.start_server(line.connect, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        line.cut()
        server.close()


async def test_calls_succeed_again_after_the_service_was_away(service: Service) -> None:
    token = await service.issue(7)
    async with (
        mcp_beside(service.app, service.clock) as app,
        listening(app) as url,
        line_to(url) as line,
        reached(line.url + PATH, bearer(token)) as remote,
        Client(server_like(remote)) as host,
    ):
        await host.call_tool("get_balance", {})
        line.cut()
        for _ in range(2):
            with pytest.raises(MCPError, match="the service does not answer"):
                await host.call_tool("get_balance", {})
        line.is_cut = False
        result = await host.call_tool("get_balance", {})

    assert result.structured_content["data"] == {"balance": 7}


@pytest.mark.parametrize(
    "written",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"],
)
async def test_an_answer_that_breaks_off_is_reported_when_the_bridge_starts(written: bytes) -> None:
    async with raw_server(written) as url:
        with pytest.raises(NoService, match="the service does not answer"):
            async with reached(url, {}):
                pass
