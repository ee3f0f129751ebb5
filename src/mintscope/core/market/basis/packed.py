"""The pools of a mint as bytes, as the log keeps them beside swaps."""

from typing import Any, Final

import msgspec

from mintscope.base.primitives import UnixS
from mintscope.core.market.standing import (
    DEPTH_UNKNOWN,
    OLD_S,
    SIGNERS,
    Standing,
    StandingPool,
)

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


def before_standing(  # noqa: PLR0913 - one argument for each known value
    pool: str, usd: float, at: UnixS, pause_s: float, since: UnixS, *, is_direct: bool
) -> Standing:
    """Return the pool that decided by decision 18; its reserves show from its next swap on.

    Its price in SOL is not known: its next move is measured in dollars alone.
    """
    only = StandingPool(
        pool=pool,
        usd=usd,
        sol=usd,
        at=at,
        pause_s=pause_s,
        low=DEPTH_UNKNOWN,
        low_before=DEPTH_UNKNOWN,
        stood_s=OLD_S,
        signers=("",) * SIGNERS,
        from_usd=usd,
        from_sol=usd,
        flow=0,
    )
    return Standing((only,), pool, usd, at, since, is_direct)
