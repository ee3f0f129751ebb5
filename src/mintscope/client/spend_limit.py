"""How much may be spent, and how much is spent already."""

from dataclasses import dataclass, field
from threading import Lock


class WillNotPay(Exception):
    """The demand is not one this wallet pays; the message says which rule it breaks."""


class OverSpendLimit(WillNotPay):
    """There is too little left, unless payments that count as spent prove dead."""


@dataclass(slots=True, kw_only=True)
class SpendLimit:
    """What payments may be, each and together; safe in several threads.

    atoms_per_payment   the most one payment may be
    atoms_in_all        the most they may be together, over the life of this object
    spent               atoms of every payment signed that may have landed or may land yet
    """

    atoms_per_payment: int
    atoms_in_all: int
    spent: int = 0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def expect_room(self, amount: int) -> None:
        """Expect that a payment of *amount* is allowed now.  Raises WillNotPay, OverSpendLimit."""
        if amount > self.atoms_per_payment:
            raise WillNotPay(
                f"expected at most {self.atoms_per_payment} atoms a payment; was {amount}"
            )
        if self.spent + amount > self.atoms_in_all:
            raise OverSpendLimit(
                f"expected at most {self.atoms_in_all} atoms in all; {self.spent} are spent,"
                f" {amount} more are asked for"
            )

    def spend(self, amount: int) -> None:
        """Count *amount* as spent if it is allowed.  Raises WillNotPay, OverSpendLimit."""
        with self._lock:  # another thread may have spent since `expect_room`
            self.expect_room(amount)
            self.spent += amount

    def count(self, amount: int) -> None:
        """Count *amount* as spent: by a payment of an earlier process that may still land."""
        with self._lock:
            self.spent += amount

    def give_back(self, amount: int) -> None:
        """Count *amount* as unspent: its payment provably cannot land."""
        with self._lock:
            self.spent -= amount
