"""Reads blocks from gRPC servers, for `chain.source = "geyser"`; needs the extra `geyser`."""

from collections.abc import AsyncIterator
from itertools import cycle

from mintscope.app.config.groups import Config, GeyserConfig
from mintscope.dex.token_accounts import SPL, SPL_2022
from mintscope.kit.clock import Clock
from mintscope.solana.blocks import LOGGED_PROGRAMS
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import Node
from mintscope.solana.poll import Polling, Progress
from mintscope.solana.yellowstone.block_buffer import StreamWatch
from mintscope.solana.yellowstone.stream import (
    GeyserEndpoint,
    GeyserSource,
    StreamEnded,
    ask_version,
)

VERSION_TIMEOUT_S = 10.0


def stream_of(  # noqa: PLR0913 - one argument for each part
    config: Config,
    repairer: Node,
    polling: Polling,
    *,
    clock: Clock,
    progress: Progress,
    meter: FinalityMeter,
    watch: StreamWatch,
) -> GeyserSource:
    """Return the source of blocks that reads the configured gRPC servers.

    The source requests transactions that contain a token program, because every program that
    exchanges tokens calls one, and transactions of order books that fill orders without such a
    call.  From a server that does not accept so many addresses, it requests all transactions except
    votes and failed ones.  Raises OSError if the file of certificates cannot be read.
    """
    return GeyserSource(
        endpoints(config.geyser),
        [SPL, SPL_2022, *LOGGED_PROGRAMS],
        repairer,
        polling,
        clock=clock,
        progress=progress,
        meter=meter,
        watch=watch,
    )


def endpoints(geyser: GeyserConfig) -> list[GeyserEndpoint]:
    """Return the servers in order of preference, each with its x-token.

    Raises OSError if the file of certificates cannot be read.
    """
    ca = None if geyser.ca_file is None else geyser.ca_file.read_bytes()
    # There is one token for all servers, or one for each.
    tokens = cycle([token.get_secret_value() for token in geyser.x_tokens] or [""])
    return [
        GeyserEndpoint(url=url.get_secret_value(), x_token=token, ca=ca)
        for url, token in zip(geyser.urls, tokens, strict=False)
    ]


async def versions(geyser: GeyserConfig) -> AsyncIterator[tuple[str, str | None, str]]:
    """Yield the host of each gRPC server, its version or None, and the error or "".

    If the server responds, the version is a text and the error is "".  Raises OSError if the file
    of certificates cannot be read.
    """
    for endpoint in endpoints(geyser):
        try:
            version = await ask_version(endpoint, VERSION_TIMEOUT_S)
        except StreamEnded as end:
            yield endpoint.where, None, f"{end.reason}: {end}"
        else:
            yield endpoint.where, version, ""
