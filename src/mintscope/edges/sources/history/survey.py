"""Which pools a mint trades in, and what reading them will cost, before anything is read."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.history.asking import Cost
from mintscope.core.market.history.store import Kind
from mintscope.core.market.quotes import oriented
from mintscope.edges.sources.history.node import LINES_MAX, PastNode
from mintscope.edges.sources.history.reader import Decode

SAMPLES_MAX: Final = 60  # transactions that name the mint, read to see in which pools


async def find_pools(node: PastNode, decode: Decode, mint: Mint) -> Mapping[str, int]:
    """Return pools of *mint*, each with how many of a sample of its transactions swap there.

    A pool whose transactions never name the mint is not among them.  Raises RpcFailure.
    """
    lines = [line for line in await node.lines(mint, before=None, until=None) if line.err is None]
    found: Counter[str] = Counter()
    for line in lines[:: max(1, math.ceil(len(lines) / SAMPLES_MAX))]:
        transaction = await node.transaction(line.signature)
        for swap in decode([] if transaction is None else [transaction]):
            seen = oriented(swap)
            if seen is not None and seen.base == mint and swap.pool is not None:
                found[swap.pool] += 1
    return found


async def cost_of(
    node: PastNode, addresses: Mapping[str, Kind], *, from_time: UnixS, calls_per_s: float
) -> Cost:
    """Return about what reading *addresses* back to *from_time* takes: one call each to see.

    The newest page says how busy an address is; it is taken to have been so all along.
    Raises RpcFailure.
    """
    transactions = pages = 0
    for address in addresses:
        lines = await node.lines(address, before=None, until=None)
        times = [line.block_time for line in lines if line.block_time is not None]
        count = sum(time >= from_time for time in times)
        if len(lines) == LINES_MAX and count == len(times) and times:
            count = count * (times[0] - from_time) // max(times[0] - times[-1], 1)
        transactions += count
        pages += count // LINES_MAX + 1
    calls = pages + transactions
    return Cost(transactions, calls, calls / calls_per_s)
