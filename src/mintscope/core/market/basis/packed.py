"""The pools of a mint as bytes, as the log keeps them beside swaps."""

from typing import Any, Final

import msgspec

from mintscope.core.market.standing import Standing, before_standing

IS_DIRECT: Final = 8  # of what decided before decision 60
_standing: Final = msgspec.msgpack.Decoder(Standing)
_decided: Final = msgspec.msgpack.Decoder(tuple[Any, ...])  # before decision 60
_encode: Final = msgspec.msgpack.Encoder().encode


def pack(standing: Standing) -> bytes:
    """Return *standing* as bytes."""
    return _encode(standing)


def unpack(packed: bytes) -> Standing:
    """Return what `pack` was given; of before decision 60, the one pool that decided."""
    try:
        return _standing.decode(packed)
    except msgspec.ValidationError:
        pool, usd, at, pause_s, since, *_ = decided = _decided.decode(packed)
        is_direct = decided[IS_DIRECT] if len(decided) > IS_DIRECT else True
        return before_standing(pool, usd, at, pause_s, since, is_direct=is_direct)
