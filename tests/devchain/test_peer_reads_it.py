"""solana-dex-parser, an independent decoder, reads the intended swaps from the blocks.

The known differences of its version 2.6.7:
* it returns the trades of failed transactions;
* for a PumpSwap sell it returns the amount of the trader, after the fees of protocol and
  creator; for all other swaps, the amount of the pool.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import WSOL
from mintscope_devchain import addresses
from mintscope_devchain.chain import Devchain, lines
from mintscope_devchain.market.pool import Venue
from support.oracles.devchain_blocks import NOW, Entry
from support.oracles.intended_swaps import intended

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
BIN = Path(sys.prefix) / "bin"
READER = Path(__file__).with_name("read_with_peer.cjs")
INSTALL = 'PATH="$1:$PATH" exec npm ci --prefix "$2" --silent --no-audit --no-fund'
LP_FEE_BPS, OTHER_FEE_BPS = 20, 5

PROGRAMS = {
    Venue.PUMP_FUN: addresses.PUMP_FUN,
    Venue.PUMP_SWAP: addresses.PUMP_SWAP,
    Venue.RAYDIUM_V4: addresses.RAYDIUM_V4,
    Venue.RAYDIUM_CLMM: addresses.RAYDIUM_CLMM,
    Venue.WHIRLPOOL: addresses.WHIRLPOOL,
    Venue.METEORA_DLMM: addresses.METEORA_DLMM,
}


class Hop(NamedTuple):
    """The fields of a swap that both the market and the parser report."""

    in_mint: str
    in_amount: int
    out_mint: str
    out_amount: int


@pytest.fixture(scope="module")
def peer() -> Path:
    """Return the folder of the parser; install the parser if it is missing."""
    if not (PEERS / "node_modules" / "solana-dex-parser").is_dir():
        subprocess.run(["/bin/sh", "-c", INSTALL, "sh", BIN, PEERS], check=True, timeout=120)
    return PEERS


@pytest.fixture(scope="module")
def chain() -> Devchain:
    chain = Devchain(seed=3, now=NOW, history_days=0.02)
    for _ in range(80):
        chain.tick()
    return chain


@pytest.fixture(scope="module")
def blocks(chain: Devchain) -> Sequence[bytes]:
    """Return the blocks of the chain, oldest first, each as a line of JSON."""
    return list(lines(chain, len(chain.blockstore.slots)))


@pytest.fixture(scope="module")
def transactions(blocks: Sequence[bytes]) -> Mapping[Slot, Sequence[Entry]]:
    """Return the transactions that the parser receives, by the slot of their block."""
    read = map(json.loads, blocks)
    return {Slot(block["slot"]): block["transactions"] for block in read}


@pytest.fixture(scope="module")
def trades(peer: Path, blocks: Sequence[bytes]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the trades that the peer's parser finds in *blocks*, by transaction signature."""
    read = subprocess.run(
        [BIN / "node", READER, peer],
        input=b"".join(blocks),
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    found = defaultdict(list)
    for line in read.stdout.splitlines():
        trade = json.loads(line)
        found[trade["signature"]].append(trade)
    return found


def test_the_peer_reads_every_intended_swap(
    chain: Devchain,
    transactions: Mapping[Slot, Sequence[Entry]],
    trades: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    venues, routes, pools = set(), 0, 0
    assert list(transactions) == list(chain.blockstore.slots)
    for slot, entries in transactions.items():
        meant = defaultdict(list)
        for swap in intended(chain, slot):
            meant[swap.signature].append(swap)
        for entry in entries:
            if entry["meta"]["err"] is not None:
                continue
            signature = entry["transaction"]["signatures"][0]
            swaps, said = meant[signature], trades.get(signature, [])
            hops = [Hop(s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in swaps]

            assert [_hop(trade) for trade in said] == [
                _as_the_peer_sees_it(hop, swap.program)
                for hop, swap in zip(hops, swaps, strict=True)
            ]
            assert all(
                trade["user"] == swap.signer for trade, swap in zip(said, swaps, strict=True)
            )
            if len(swaps) == 1:  # for a route the parser returns the router
                assert said[0]["program"] == PROGRAMS[Venue(swaps[0].program)]
                assert said[0]["pool"] in (swaps[0].pool, None)  # the parser misses some pools
                pools += said[0]["pool"] is not None
            venues |= {swap.program for swap in swaps}
            routes += len(swaps) > 1

    assert venues == set(Venue)
    assert routes > 20
    assert pools > 200


def test_the_peer_returns_trades_of_failed_transactions(
    transactions: Mapping[Slot, Sequence[Entry]],
    trades: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    failed = [
        entry["transaction"]["signatures"][0]
        for entries in transactions.values()
        for entry in entries
        if entry["meta"]["err"] is not None
    ]

    assert failed
    assert all(signature in trades for signature in failed)


def _hop(trade: Mapping[str, Any]) -> Hop:
    return Hop(
        trade["in_mint"], int(trade["in_amount"]), trade["out_mint"], int(trade["out_amount"])
    )


def _as_the_peer_sees_it(hop: Hop, program: str) -> Hop:
    if program != Venue.PUMP_SWAP or hop.out_mint != WSOL:
        return hop
    gross = hop.out_amount * 10_000 // (10_000 - LP_FEE_BPS)
    fee = -(-gross * OTHER_FEE_BPS // 10_000)  # the fee of the protocol; the creator's is equal
    return hop._replace(out_amount=hop.out_amount - 2 * fee)
