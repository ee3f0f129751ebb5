"""The official x402 client in tests: its warnings, and the connections that it leaves open."""

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def official_client() -> Iterator[None]:
    """Close behind a test every connection to a node that the x402 client has opened.

    It has no way to close them.  Left to the garbage collector, they would fail a later test.
    """
    provider: Any = import_module("solana.rpc.providers.http").HTTPProvider
    begin, opened = provider.__init__, []

    def note(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        opened.append(self.session)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is deprecated")  # it uses that of solana-py
        patch.setattr(provider, "__init__", note)
        yield
    for session in opened:
        session.close()
