"""A validator's vote."""

from typing import NamedTuple

from mintscope.base.primitives import Slot, UnixS
from mintscope.devchain.addresses import VOTE
from mintscope.devchain.shapes.bytes import u8, u32, u64
from mintscope.devchain.transaction import Call

TOWER_SYNC = 14
LOCKOUTS = 31


class Vote(NamedTuple):
    """*voter* votes for the slots up to *slot*, whose bank has the hash *bank*."""

    account: str
    voter: str
    slot: Slot
    bank: bytes
    at: UnixS


def tower_sync(vote: Vote) -> Call:
    """Return the instruction that casts *vote*."""
    tower = b"".join(b"\x01" + u8(LOCKOUTS - number) for number in range(LOCKOUTS))
    return Call(
        VOTE,
        (vote.account, vote.voter),
        b"".join(
            (
                u32(TOWER_SYNC),
                u64(vote.slot - LOCKOUTS),
                u8(LOCKOUTS) + tower,
                vote.bank,
                u8(1) + u64(vote.at),
                vote.bank,
            )
        ),
    )
