"""What the network takes for a transaction, in lamports."""

from typing import Final

from solders.compute_budget import ID as COMPUTE_BUDGET

from mintscope.devchain.svm.keys import AnyMessage

SIGNATURE_LAMPORTS: Final = 5_000
UNITS_PER_INSTRUCTION: Final = 200_000
UNITS_MAX: Final = 1_400_000
MICRO: Final = 1_000_000
SET_UNIT_LIMIT: Final = 2
SET_UNIT_PRICE: Final = 3


def base_fee(message: AnyMessage) -> int:
    """Return the fee for the signatures of *message*."""
    return SIGNATURE_LAMPORTS * message.header.num_required_signatures


def priority_fee(message: AnyMessage) -> int:
    """Return what the compute-budget instructions of *message* add; LiteSVM leaves it out."""
    keys = message.account_keys
    limit: int | None = None
    price = others = 0
    for instruction in message.instructions:
        data = bytes(instruction.data)
        if keys[instruction.program_id_index] != COMPUTE_BUDGET:
            others += 1
        elif data[:1] == bytes([SET_UNIT_LIMIT]):
            limit = int.from_bytes(data[1:5], "little")
        elif data[:1] == bytes([SET_UNIT_PRICE]):
            price = int.from_bytes(data[1:9], "little")
    units = min(UNITS_PER_INSTRUCTION * others if limit is None else limit, UNITS_MAX)
    return -(-price * units // MICRO)
