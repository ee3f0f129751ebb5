"""Handles warnings of the official x402 client, and connections that it leaves open."""

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def official_client() -> Iterator[None]:
    """Close all connections to nodes that the x402 client has opened, when the test ends.

    The client cannot close these connections.  If the garbage collector closed them, a later
    test would fail.
    """
    provider: Any = import_module("solana.rpc.providers.http").HTTPProvider
    begin, opened = provider.__init__, []

    def note(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        opened.append(self.session)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is deprecated")  # solana-py
        patch.setattr(provider, "__init__", note)
        yield
    for session in opened:
        session.close()
