"""An answer that credits bought and that was lost is requested again, and charged once."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from mintscope.solana.blocks import WSOL
from mintscope_client import AsyncClient
from support.fakes import reports
from support.scenes.conversations import add_swap
from support.scenes.service import running_service
from support.scenes.whole_report import whole_report

ASKED: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "report": lambda client: client.token(WSOL),
    "batch": lambda client: client.batch([WSOL]),
}


class Losing(httpx.AsyncBaseTransport):
    """Delivers each request, and loses the first answer."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.answers: list[dict[str, str]] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.answers.append(dict(response.headers))
        if len(self.answers) == 1:
            await response.aread()
            raise httpx.ReadError("the connection was reset", request=request)
        return response


@pytest.mark.parametrize("what", ASKED)
async def test_a_call_whose_answer_is_lost_is_charged_once(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with running_service(tmp_path) as shop:
        add_swap(shop)
        token = await shop.issue(10)
        losing = Losing(httpx.ASGITransport(shop.app))
        async with AsyncClient("http://test", credential=token, transport=losing) as client:
            await ASKED[what](client)

        assert await shop.left(token) == 9
    assert [answer.get("idempotent-replayed") for answer in losing.answers] == [None, "true"]
