"""The keys of a transaction's message in the order of their indexes, and its fees."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from solders.account import Account
from solders.compute_budget import ID as COMPUTE_BUDGET
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey

AnyMessage = Message | MessageV0

TABLE_HEADER_BYTES: Final = 56
KEY_BYTES: Final = 32
SIGNATURE_LAMPORTS: Final = 5_000
UNITS_PER_INSTRUCTION: Final = 200_000
UNITS_MAX: Final = 1_400_000
MICRO: Final = 1_000_000
SET_UNIT_LIMIT: Final = 2
SET_UNIT_PRICE: Final = 3


class Keys(NamedTuple):
    """The keys of all accounts that a transaction names.

    static, loaded_...   the keys in the message, and those from lookup tables
    writable             the keys of accounts that it may write, the fee payer first
    """

    static: Sequence[Pubkey]
    loaded_writable: Sequence[Pubkey]
    loaded_readonly: Sequence[Pubkey]
    writable: Sequence[Pubkey]

    @property
    def all(self) -> list[Pubkey]:
        """All keys of the message, in the order in which instructions refer to them by index."""
        return [*self.static, *self.loaded_writable, *self.loaded_readonly]


def resolve(message: AnyMessage, account: Callable[[Pubkey], Account | None]) -> Keys:
    """Return the keys of *message*, following its lookup tables.

    An index outside its lookup table gives no key: LiteSVM refuses such a transaction.
    """
    loaded_writable: list[Pubkey] = []
    loaded_readonly: list[Pubkey] = []
    for lookup in message.address_table_lookups if isinstance(message, MessageV0) else ():
        table = _addresses(account(lookup.account_key))
        loaded_writable += [table[i] for i in lookup.writable_indexes if i < len(table)]
        loaded_readonly += [table[i] for i in lookup.readonly_indexes if i < len(table)]
    static = message.account_keys
    return Keys(
        static, loaded_writable, loaded_readonly, [*_writable(message, static), *loaded_writable]
    )


def _writable(message: AnyMessage, static: Sequence[Pubkey]) -> list[Pubkey]:
    header = message.header
    signers = header.num_required_signatures
    signed_end = signers - header.num_readonly_signed_accounts
    unsigned_end = len(static) - header.num_readonly_unsigned_accounts
    return [*static[:signed_end], *static[signers:unsigned_end]]


def _addresses(table: Account | None) -> list[Pubkey]:
    if table is None:
        return []
    data = bytes(table.data)[TABLE_HEADER_BYTES:]
    whole = len(data) - len(data) % KEY_BYTES
    return [Pubkey.from_bytes(data[at : at + KEY_BYTES]) for at in range(0, whole, KEY_BYTES)]


def base_fee(message: AnyMessage) -> int:
    """Return the lamports that the signatures of *message* cost."""
    return SIGNATURE_LAMPORTS * message.header.num_required_signatures


def priority_fee(message: AnyMessage) -> int:
    """Return the priority fee of *message* in lamports; LiteSVM itself does not charge it."""
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
    # Rounded up, as by the chain
    return -(-price * units // MICRO)
