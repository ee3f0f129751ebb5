"""The node that is configured: as blocks are read from it, and as it is asked beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import httpx

from mintscope.base.clock import Clock
from mintscope.base.solana import Endpoint
from mintscope.edges.sources.finality import watch_migration
from mintscope.edges.sources.node import Node, PreferredNodes
from mintscope.edges.sources.rpc import Rpc
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.maintenance import running


def node_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the node that blocks are read from."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
        timeout_s=chain.timeout_s,
        requests_in_flight=chain.requests_in_flight,
        max_transaction_version=chain.max_transaction_version,
    )


def asked_beside(chain: ChainConfig) -> Endpoint:
    """Return the node, to be asked one question at a time, and once.

    A client of its own asks it: a limit that the node names for such a question holds no block up.
    """
    return replace(node_endpoint(chain), attempts_max=1, requests_in_flight=1)


@asynccontextmanager
async def following(
    chain: ChainConfig, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Node]:
    """Open the nodes that blocks are read from, and watch which kind of finality the first has."""
    first = node_endpoint(chain)
    async with (
        Rpc(first, clock=clock, transport=transport) as rpc,
        Rpc(asked_beside(chain), clock=clock, transport=transport) as aside,
        running(partial(watch_migration, aside, asyncio.sleep), "migration"),
    ):
        if chain.second_rpc_url is None:
            yield rpc
            return
        url = chain.second_rpc_url.get_secret_value()
        async with Rpc(replace(first, url=url, headers={}), clock=clock) as second:
            yield PreferredNodes([rpc, second], clock)
