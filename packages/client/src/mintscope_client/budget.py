"""Limits of the credits that a client may spend, checked before each call is sent.

Payments of a wallet have another limit, its `SpendLimit`, which is checked before the wallet signs
a payment.
"""

from dataclasses import dataclass, field
from threading import Lock

from mintscope_client.errors import OverBudgetError


@dataclass(slots=True, kw_only=True)
class CreditBudget:
    """Limits of the credits that one call, and all calls together, may cost; thread-safe.

    credits_per_call   the most credits that one call may cost; None: no such limit
    credits_in_all     the most credits that all calls with this object may cost together; None: no
                       such limit
    spent              the credits of all calls that have succeeded, that may have succeeded, or
                       that have no answer yet; a call counts once, however often it is repeated
    """

    credits_per_call: int | None = None
    credits_in_all: int | None = None
    spent: int = 0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @property
    def left(self) -> int | None:
        """The credits that may still be spent; None if `credits_in_all` is None."""
        return None if self.credits_in_all is None else self.credits_in_all - self.spent

    def reserve(self, credit_count: int) -> None:
        """Count *credit_count* as spent.  Raises OverBudgetError if a limit does not allow it."""
        if not credit_count:
            return
        if self.credits_per_call is not None and credit_count > self.credits_per_call:
            raise OverBudgetError(
                f"expected a call of at most {self.credits_per_call} credits;"
                f" this one may cost {credit_count}. It was not sent"
            )
        with self._lock:
            left = self.left
            if left is not None and credit_count > left:
                raise OverBudgetError(
                    f"expected at most {self.credits_in_all} credits in all; {self.spent} are"
                    f" spent, this call may cost {credit_count}. It was not sent"
                )
            self.spent += credit_count

    def give_back(self, credit_count: int) -> None:
        """Subtract *credit_count* from the spent credits; a negative number adds to them."""
        with self._lock:
            self.spent -= credit_count
