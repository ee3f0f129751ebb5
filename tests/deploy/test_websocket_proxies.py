"""WebSockets pass through default Caddy, and through nginx with two headers of scale.md."""

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import pytest
from proxies import caddy_before, nginx_before

from mintscope.solana.blocks import WSOL
from support.scenes.live_market import TRADED
from support.scenes.sockets import socket, stream
from support.scenes.streaming import streaming_service

HEADERS: Final = (
    "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;"
    " proxy_set_header Connection upgrade;"
)

pytestmark = pytest.mark.process


class Before(Protocol):
    """Runs a proxy in front of *upstream*, with its files in *folder*; yields its address."""

    def __call__(self, upstream: str, folder: Path) -> AbstractContextManager[str]: ...


@pytest.mark.parametrize(
    "before", [caddy_before, partial(nginx_before, also=HEADERS)], ids=["Caddy", "nginx"]
)
async def test_websockets_behind_a_proxy_open_get_updates_and_close(
    tmp_path: Path, before: Before
) -> None:
    async with streaming_service(tmp_path) as streaming:
        token = await streaming.service.issue(2)
        with before(f"http://127.0.0.1:{streaming.server.port}", tmp_path) as url:
            streaming.server.port = urlsplit(url).port or 0
            async with stream(streaming, token, TRADED[:1]) as by_head, socket(streaming) as other:
                await other.say({"type": "auth", "token": token, "mints": [WSOL]})
                for opened in (by_head, other):
                    assert [each.name for each in await opened.some(2)] == ["minute", "snapshot"]
                await streaming.trade()
                assert (await by_head.next()).name == (await other.next()).name == "update"
            await streaming.until_closed()
