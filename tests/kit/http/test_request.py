"""A request receives its body once, however often the body is read."""

from collections.abc import MutableMapping
from typing import Any

from mintscope.kit.http.request import Request


async def test_a_second_read_of_a_body_returns_the_same_without_waiting() -> None:
    parts: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": b"one ", "more_body": True},
        {"type": "http.request", "body": b"body"},
    ]

    async def receive() -> MutableMapping[str, Any]:
        return parts.pop(0)  # a third call would fail

    request = Request({"headers": []}, receive)

    assert [await request.body(), await request.body()] == [b"one body"] * 2
