"""The accounts a transaction names, in the order its instructions count them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from solders.account import Account
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey

AnyMessage = Message | MessageV0

TABLE_HEADER_BYTES = 56
KEY_BYTES = 32


class Keys(NamedTuple):
    """The account keys of a transaction.

    writable   those it may write, fee payer first
    """

    static: Sequence[Pubkey]
    loaded_writable: Sequence[Pubkey]
    loaded_readonly: Sequence[Pubkey]
    writable: Sequence[Pubkey]

    @property
    def all(self) -> list[Pubkey]:
        """Every key, as instructions index them."""
        return [*self.static, *self.loaded_writable, *self.loaded_readonly]


def resolve(message: AnyMessage, account: Callable[[Pubkey], Account | None]) -> Keys:
    """Return the keys of *message*, following its lookup tables.

    A key that its table does not have is left out: the machine refuses such a transaction.
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
