"""Banks of the devchain whose virtual machine one test leaves to the next.

To make a machine takes 22 ms, because it loads every program, and the suite needs some thousand.
"""

from threading import get_ident
from typing import Final
from weakref import finalize

from solders.account import Account
from solders.clock import Clock
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from typing_extensions import override

from mintscope.devchain.svm import vm
from mintscope.devchain.svm.bank import NOTHING, Bank, Execution

FREE_MAX: Final = 8

_free: Final[list["_Machine"]] = []


class _Machine:
    """A LiteSVM and what it held before its bank wrote: nothing else of it ever changes.

    before      each account that was written, as it was when the machine was new
    is_as_new   only accounts without code were written, so that they can be put back
    """

    def __init__(self, svm: LiteSVM) -> None:
        self.thread = get_ident()  # no other may touch it
        self.svm = svm
        self.clock: Clock = svm.get_clock()
        self.before: dict[Pubkey, Account | None] = {}
        self.is_as_new = True

    def give_back(self) -> None:
        """Undo every write, and leave the machine to the next bank."""
        if get_ident() != self.thread or not self.is_as_new or len(_free) >= FREE_MAX:
            return
        for address, account in self.before.items():
            self.svm.set_account(address, NOTHING if account is None else account)
        self.svm.set_clock(self.clock)
        self.before.clear()
        _free.append(self)


class RecycledBank(Bank):
    """A bank over a machine that others had before it, if one is free."""

    @override
    def __init__(self) -> None:
        mine = next((each for each in _free if each.thread == get_ident()), None)
        if mine is None:
            super().__init__()
            mine = _Machine(self._svm)
        else:
            _free.remove(mine)
            self.token_accounts = {}
            self._svm = mine.svm
        self._machine = mine
        self._give_back = finalize(self, mine.give_back)
        self._give_back.atexit = False

    def end(self) -> None:
        """Leave the machine to the next bank now; this one is of no more use."""
        self._give_back()
        del self._svm

    @override
    def put(self, address: Pubkey, account: Account | None) -> None:
        before = self.account(address)
        self._machine.before.setdefault(address, before)
        if any(each is not None and each.executable for each in (before, account)):
            self._machine.is_as_new = False
        super().put(address, account)

    @override
    def execute(self, transaction: VersionedTransaction) -> Execution:
        outcome = super().execute(transaction)
        for address, account in outcome.before.items():
            self._machine.before.setdefault(address, account)
        return outcome


def end(bank: Bank) -> None:
    """End *bank*: what holds it is in a cycle, and goes some hundred tests later."""
    if isinstance(bank, RecycledBank):
        bank.end()


def recycle_banks() -> None:
    """Let every devchain of this process have one of these banks."""
    vars(vm)["Bank"] = RecycledBank
