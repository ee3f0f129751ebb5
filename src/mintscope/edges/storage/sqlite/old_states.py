"""States of earlier versions, read by SQL functions for migrations.

A state of version 2 has the newest candle with a price behind what version 1 has of each
timeframe.  These layouts never change, whatever is written today.
"""

from struct import Struct
from typing import Any, Final

import apsw
import msgspec

VERSION: Final = Struct("<q")
HEAD_BYTES: Final = 24  # version, time of the first candle, price in SOL
FRAME_BYTES: Final = 112
FRAMES: Final = 4
CANDLE: Final = Struct("<q4dq")  # bucket, open, high, low, close, trades
NO_CANDLE: Final = CANDLE.pack(-1, 0.0, 0.0, 0.0, 0.0, 0)
# Of each swap of a slot: whether it bought, and its volume.
IS_BUY = 4
VOLUME = 5
_swaps: Final = msgspec.msgpack.Decoder(list[tuple[Any, ...]])


def offer(db: apsw.Connection) -> None:
    """Let statements of *db* call `packed_candle`, `state_2` and `volume_1`."""
    db.create_scalar_function("packed_candle", CANDLE.pack, 6, deterministic=True)
    db.create_scalar_function("state_2", state_2, 1 + FRAMES, deterministic=True)
    db.create_scalar_function("volume_1", volume_1, 2, deterministic=True)


def state_2(*values: Any) -> bytes:
    """Return a state of version 1 and its four open candles, some None, as one of version 2.

    Raises ValueError for a state of another length
    """
    state, *candles = values
    if len(state) != HEAD_BYTES + FRAMES * FRAME_BYTES:
        raise ValueError(f"expected a state of version 1, were {len(state)} bytes")
    parts = [VERSION.pack(2), state[VERSION.size : HEAD_BYTES]]
    for n, candle in enumerate(candles):
        begin = HEAD_BYTES + n * FRAME_BYTES
        parts += (state[begin : begin + FRAME_BYTES], candle or NO_CANDLE)
    return b"".join(parts)


def volume_1(*values: Any) -> int:
    """Return the volume, in micro-USD, of a blob of swaps on one side: whether it bought."""
    swaps, is_buy = values
    return sum(swap[VOLUME] for swap in _swaps.decode(swaps) if swap[IS_BUY] == bool(is_buy))
