"""A request: its body is received once, however often it is read."""

from collections.abc import MutableMapping
from typing import Any

from mintscope.kit.http.request import Request


async def test_a_body_that_is_read_twice_is_the_same_and_waits_for_nothing() -> None:
    parts: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": b"one ", "more_body": True},
        {"type": "http.request", "body": b"body"},
    ]

    async def receive() -> MutableMapping[str, Any]:
        return parts.pop(0)  # a third is never sent

    request = Request({"headers": []}, receive)

    assert [await request.body(), await request.body()] == [b"one body"] * 2
