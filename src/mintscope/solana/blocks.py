"""Blocks, finality and gaps as plain data, and the interface of block sources.

A source may repeat updates, so every consumer must be idempotent.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.solana.transaction import Transactions

WSOL: Final = Mint("So11111111111111111111111111111111111111112")
USDC: Final = Mint("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
USDT: Final = Mint("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB")
STABLES: Final = frozenset({USDC, USDT})
# Other dollar tokens in which swaps are quoted, each with 6 decimals: see `market.quotes`.
PYUSD: Final = Mint("2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo")
USDS: Final = Mint("USDSwr9ApdHk5bvJKMjzff41FfuX8bSxdKcR81vTwcA")
USD1: Final = Mint("USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB")
USDG: Final = Mint("2u1tszSeqZ3qBWF3uNGPFc8TzMk2tdiwknnRMWGWjGWH")
JUPUSD: Final = Mint("JuprjznTrTSp2UFa3ZBUFgwdAmtZCq4MQCwysN55USD")
CASH: Final = Mint("CASHx9KJUStyftLFWGvEVf59SGeG9sh5FfcnZMVPCASH")
DOLLARS: Final = STABLES | {PYUSD, USDS, USD1, USDG, JUPUSD, CASH}
# Liquid staking tokens: their prices follow SOL, so swaps for them can price other mints.
JITOSOL: Final = Mint("J1toso1uCk3RLmjorhTtrVwY9HJ7X8V9yYac6Y7kGCPn")
MSOL: Final = Mint("mSoLzYCxHdYgdzU16g5QSh3i5K3z3KZK7ytfqcJm7So")
JUPSOL: Final = Mint("jupSoLaHXQiZZTSfEWMTRRgpnyFm8f6sZdosWBjx93v")
BSOL: Final = Mint("bSo13r4TkiE4KumL71LsHTPpL2euBYLFx6h9HP3piy1")
STAKING_TOKENS: Final = frozenset({JITOSOL, MSOL, JUPSOL, BSOL})
LAMPORTS_PER_SOL: Final = 1_000_000_000


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block that the chain has confirmed."""

    slot: Slot
    parent_slot: Slot
    blockhash: str
    parent_blockhash: str
    time: UnixS | None  # block time; None if the node does not report it
    transactions: Transactions
    size: int = 0  # size of the transactions as received, in bytes; 0 if unknown


class Finalized(msgspec.Struct, frozen=True):
    """The report that every delivered block up to and including *slot* is final."""

    slot: Slot


class Gap(msgspec.Struct, frozen=True):
    """Slots *first* to *last*, inclusive, that the source cannot deliver or has skipped."""

    first: Slot
    last: Slot
    reason: str


Update = Block | Finalized | Gap


class Tip(msgspec.Struct, frozen=True):
    """The newest block that a consumer has applied; a source resumes after it."""

    slot: Slot
    blockhash: str


class SourceError(Exception):
    """A source cannot deliver the requested data; the message is for the operator."""

    is_refusal: ClassVar[bool] = False  # True: a retry needs another configuration first


class Source(Protocol):
    """Delivers the blocks of a chain, their finality, and gaps."""

    async def genesis_hash(self) -> str | None:
        """Return the genesis hash of the chain; None if the source does not know it."""

    def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        """Yield the updates that follow *after*, oldest first; None: from the source's start.

        The updates of files end after the last file; the updates of a live source never end.  If
        the chain forked below *after*, the source yields the replacing block, whose parent shows
        the consumer which blocks were abandoned.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The URL of a node, and the limits of requests to the node."""

    url: str = field(repr=False)  # it may contain a key
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 20.0
    attempts_max: int = 5
    requests_in_flight: int = 10
    max_transaction_version: int = 1


LOGGED_PROGRAMS: Final = ("MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms",)
"""Manifest, which fills orders without calling a program: only its log shows the fills."""
