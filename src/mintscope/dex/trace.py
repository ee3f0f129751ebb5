"""What ran inside what: the calls of DEX programs, each with what moved under it.

A transfer belongs to the innermost DEX above it.  Directly under a router it
belongs to none: commissions, tips and the user's own deposits pass there.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from mintscope.dex.entry import Instruction
from mintscope.dex.ledger import ASSOCIATED_TOKEN, SYSTEM, TOKEN, TOKEN_2022
from mintscope.dex.outcome import Reason, Unreadable
from mintscope.dex.program import Call, Program
from mintscope.dex.programs import BY_ADDRESS, UNKNOWN


class Native(Enum):
    """Programs that are no DEX, and what the trace does with their instructions."""

    TOKEN = auto()
    TOKEN_2022 = auto()
    SYSTEM = auto()
    IGNORED = auto()


ROLES: Final[Mapping[str, Program | Native]] = {
    **BY_ADDRESS,
    TOKEN: Native.TOKEN,
    TOKEN_2022: Native.TOKEN_2022,
    SYSTEM: Native.SYSTEM,
    ASSOCIATED_TOKEN: Native.IGNORED,
}

# Data without heights is read flat: a DEX is called from the top, the rest belongs to it.
TOP, CALLED, MOVING = 1, 2, 3


def calls(
    outer: Sequence[Instruction], inner: Mapping[int, Sequence[Instruction]], keys: Sequence[str]
) -> list[Call]:
    """Return every call of a DEX, in order of execution.

    Raises Unreadable where an instruction runs a program beyond *keys*.
    """
    found: list[Call] = []
    for position, instruction in enumerate(outer):
        key = keys[instruction.program_id_index]
        role = ROLES.get(key)
        call = None
        if role is None:
            _require(key)
        elif isinstance(role, Program) and role.read is not None:
            call = Call(role, instruction, position, -1)
            found.append(call)
        if nested := inner.get(position):
            _descend(nested, position, role, call, keys, found)
    return found


def _descend(  # noqa: C901, PLR0913 - one pass over the hottest loop; frames stay in locals
    instructions: Sequence[Instruction],
    outer: int,
    program: Program | Native | None,
    call: Call | None,
    keys: Sequence[str],
    found: list[Call],
) -> None:
    """Add to *found* the calls among what top-level instruction *outer* called."""
    height = TOP
    frames = [(height, program, call)]
    for position, instruction in enumerate(instructions):
        key = keys[instruction.program_id_index]
        role = ROLES.get(key)
        at = instruction.stack_height
        if at is None:
            is_call = isinstance(role, Program) and not _is_event(role, program, instruction)
            at = CALLED if is_call else MOVING
        while height >= at:
            frames.pop()
            if not frames:
                raise Unreadable(Reason.MALFORMED)
            height, program, call = frames[-1]
        if role is Native.TOKEN:
            if call is not None:
                call.tokens.append(instruction)
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
        elif role is None:
            _require(key)
            if at == height + 1 and isinstance(program, Program) and program.read is None:
                program, call = UNKNOWN, Call(UNKNOWN, instruction, outer, position)
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


def _require(key: str) -> None:
    if not key:
        raise Unreadable(Reason.UNKNOWN_ACCOUNT)
