"""Virtual machines that load a program when a transaction first needs it.

A LiteSVM loads all programs when it is created, which takes 20 ms.  Thousands of tests open a
world, and most of them need only three programs.
"""

from functools import cache
from typing import Final

from solders.account import Account
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.solders import LiteSVM as Machine
from solders.transaction import Transaction, VersionedTransaction
from solders.transaction_metadata import TransactionResult
from typing_extensions import override

from mintscope_devchain.svm import bank

LAMPORTS: Final = 1_000_000 * 10**9  # the lamports with which a full machine begins
PROGRAMS: Final = tuple(
    map(
        Pubkey.from_string,
        (
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
            "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
            "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
            "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
            "AddressLookupTab1e1111111111111111111111111",
            "Config1111111111111111111111111111111111111",
        ),
    )
)


class QuickMachine(LiteSVM):
    """A LiteSVM that has the same content as a full machine, but loads programs at first use."""

    @override
    def __init__(self) -> None:
        self._inner = Machine.default()
        self._inner.set_builtins()
        self._inner.set_lamports(LAMPORTS)
        self._inner.set_sysvars()
        self._inner.set_precompiles()  # type: ignore[attr-defined]  # not in its stubs
        self._not_loaded = dict(_programs())

    @override
    def get_account(self, address: Pubkey) -> Account | None:
        self._load(address)
        return super().get_account(address)

    @override
    def set_account(self, address: Pubkey, account: Account) -> None:
        self._not_loaded.pop(address, None)
        super().set_account(address, account)

    @override
    def send_transaction(self, tx: Transaction | VersionedTransaction) -> TransactionResult:
        lookups = getattr(tx.message, "address_table_lookups", ())
        for address in [*self._not_loaded] if lookups else tx.message.account_keys:
            self._load(address)
        return super().send_transaction(tx)

    def _load(self, address: Pubkey) -> None:
        program = self._not_loaded.pop(address, None)
        if program is not None:
            super().set_account(address, program)


@cache
def _programs() -> list[tuple[Pubkey, Account]]:
    whole = LiteSVM()
    found = [(address, whole.get_account(address)) for address in PROGRAMS]
    return [(address, account) for address, account in found if account is not None]


def make_machines_quickly() -> None:
    """Make each devchain of this process use a QuickMachine: it is ready in 3 ms, not in 20 ms."""
    vars(bank)["LiteSVM"] = QuickMachine
