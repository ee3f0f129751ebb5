"""The progress of a bonding curve towards its pool, from the event of a swap.

pump.fun     1 - tokens left to sell / INITIAL_TOKENS, which every curve of it begins with
LaunchLab    tokens sold / tokens to be sold
Meteora DBC  quote in the curve / quote at which it migrates
"""

from collections.abc import Callable, Mapping
from typing import Final

from mintscope.dex.base58 import data_of
from mintscope.dex.events import FIELDS_AT, SELF_CALL, U64
from mintscope.dex.program import Call

WHOLE: Final = 1_000_000  # of the way
INITIAL_TOKENS: Final = 793_100_000_000_000  # raw units of 6 decimals

Part = Callable[[bytes], tuple[int, int] | None]  # done and whole, raw units


def _u64(event: bytes, at: int) -> int | None:
    if len(event) < FIELDS_AT + at + 8:
        return None
    (field,) = U64(event, FIELDS_AT + at)
    return int(field)


def _pumpfun(event: bytes) -> tuple[int, int] | None:
    left = _u64(event, 113)
    return None if left is None else (INITIAL_TOKENS - left, INITIAL_TOKENS)


def _fields(done_at: int, whole_at: int) -> Part:
    def part(event: bytes) -> tuple[int, int] | None:
        done = _u64(event, done_at)
        whole = _u64(event, whole_at)
        return None if done is None or not whole else (done, whole)

    return part


TRADE: Final = bytes.fromhex("bddb7fd34ee661ee")
PARTS: Final[Mapping[str, Mapping[bytes, Part]]] = {
    "pumpfun": {TRADE: _pumpfun},
    "raydium_launchlab": {TRADE: _fields(72, 32)},
    "meteora_dbc": {
        bytes.fromhex("bd4233a826507599"): _fields(155, 163),  # EvtSwap2
        bytes.fromhex("863ba8785e3372e7"): _fields(155, 163),  # with a transfer hook
    },
}


def progress_of(call: Call) -> int | None:
    """Return the millionths of the way that the event of *call* shows, 0 to WHOLE; None if none."""
    parts = PARTS.get(call.program.name)
    if parts is None:
        return None
    for data in map(data_of, call.events):
        part = parts.get(data[8:FIELDS_AT])
        found = None if part is None or data[:8] != SELF_CALL else part(data)
        if found is not None:
            done, whole = found
            return max(0, min(WHOLE, done * WHOLE // whole))
    return None
