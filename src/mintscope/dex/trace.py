"""What ran inside what: the calls of DEX programs, each with what moved under it.

A transfer belongs to the innermost DEX above it.  Directly under a router it
belongs to none: commissions, tips and the user's own deposits pass there.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from mintscope.dex.entry import Instruction
from mintscope.dex.ledger import (
    ASSOCIATED,
    SPL,
    SPL_2022,
    SYSTEM,
)
from mintscope.dex.outcome import Reason, Unreadable
from mintscope.dex.program import Call, Program
from mintscope.dex.programs import BY_ADDRESS, UNKNOWN


class Native(Enum):
    """Programs that are no DEX, and what the trace does with their instructions."""

    TOKEN = auto()
    TOKEN_2022 = auto()
    SYSTEM = auto()
    IGNORED = auto()


TRANSFERRING: Final = Native.TOKEN
ROLES: Final[Mapping[str, Program | Native]] = {
    **BY_ADDRESS,
    SPL: Native.TOKEN,
    SPL_2022: Native.TOKEN_2022,
    SYSTEM: Native.SYSTEM,
    ASSOCIATED: Native.IGNORED,
}

# Data without heights is read flat: a DEX is called from the top, the rest belongs to it.
TOP, CALLED, MOVING = 1, 2, 3

Frame: TypeAlias = tuple[int, Program | Native | None, Call | None]
"""An instruction that may call others: its height, its program, its call if that is a DEX."""


def calls(
    outer: Sequence[Instruction], inner: Mapping[int, Sequence[Instruction]], keys: Sequence[str]
) -> list[Call]:
    """Return every call of a DEX, in order of execution.

    Raises Unreadable where an instruction runs a program beyond *keys*.
    """
    found: list[Call] = []
    roles = list(map(ROLES.get, keys))
    try:
        for position, instruction in enumerate(outer):
            role = roles[instruction.program_id_index]
            nested = inner.get(position)
            call = None
            if isinstance(role, Program) and role.read is not None:
                call = Call(role, instruction, position, -1)
                found.append(call)
            if nested:
                _descend(nested, position, (TOP, role, call), roles, found)
    except IndexError:
        raise Unreadable(Reason.UNKNOWN_ACCOUNT) from None
    return found


def _descend(  # noqa: C901, PLR0912 - the hottest loop: one pass, its state in locals
    instructions: Sequence[Instruction],
    outer: int,
    top: Frame,
    roles: Sequence[Program | Native | None],
    found: list[Call],
) -> None:
    """Add to *found* the calls among what top-level instruction *outer* called."""
    height, program, call = top
    frames = [top]
    for position, instruction in enumerate(instructions):
        role = roles[instruction.program_id_index]
        at = instruction.stack_height
        if at is None:
            is_call = isinstance(role, Program) and not _is_event(role, program, instruction)
            at = CALLED if is_call else MOVING
        while at <= height:
            frames.pop()
            if not frames:
                raise Unreadable(Reason.MALFORMED)
            height, program, call = frames[-1]
        if role is TRANSFERRING:
            if call is not None:
                call.tokens.append(instruction)
        elif role is None:
            if isinstance(program, Program) and program.read is None and at == height + 1:
                program, call = UNKNOWN, Call(UNKNOWN, instruction, outer, position)
                found.append(call)
                height = at
                frames.append((height, program, call))
        elif isinstance(role, Program):
            if _is_event(role, program, instruction):
                if call is not None:
                    call.events.append(instruction)
                continue
            program, call = role, None
            if role.read is not None:
                call = Call(role, instruction, outer, position)
                found.append(call)
            height = at
            frames.append((height, program, call))
        elif call is not None:
            if role is Native.TOKEN_2022:
                call.tokens.append(instruction)
                call.token_2022 = True
            elif role is Native.SYSTEM:
                call.lamports.append(instruction)


def _is_event(role: Program, program: Program | Native | None, instruction: Instruction) -> bool:
    """Return whether a program calls itself only to be seen: its sole account is its authority."""
    return role is program and len(instruction.accounts) <= 1
