"""Budgets of callers: in the arguments for one call, in a header for many calls.

    Mintscope-Budget: credits=20, usd=0.05, session=research-7

All calls with the same header and credential (or IP address, if they have no credential) share a
budget: in any 24 hours they cost at most 20 credits, and payments of at most 0.05 USD.  A call that
would exceed the budget is refused in advance, and costs nothing.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from mintscope.kit.limits import Admitted, Limit, Limiter, Limits
from mintscope.mcp.arguments import Arguments
from mintscope.mcp.tools import ToolCost
from mintscope.payments.pricing import BUNDLES, REQUEST_USD

HEADER: Final = "Mintscope-Budget"
WINDOW_S: Final = 86_400
SHARES_MAX: Final = 1_000  # highest budget, in credits or REQUEST_USD; each value has its own limit
USD_MAX: Final = SHARES_MAX * REQUEST_USD
SESSION_MAX: Final = 64
KEY_BYTES: Final = 16
SHOWN_EXPONENT_MIN: Final = -9  # smaller amounts are shown as 1E-10
# Counts each payment once for each budget, so that a payment that is sent again is recognised.
PAYMENT: Final = Limit(name="payment of a budget", count=1, window_s=WINDOW_S)
FORM: Final = (
    f"{HEADER}: expected credits=<1 to {SHARES_MAX}>, usd=<{REQUEST_USD} to {USD_MAX}>,"
    f" session=<name of at most {SESSION_MAX} characters of A-Z, a-z, 0-9, '-', '_' and '.'>,"
    " separated by commas"
)
FREE: Final = "Nothing was charged."


class UnreadableBudget(Exception):
    """The header is not a valid budget."""


class OverBudget(Exception):
    """The call would exceed one of the caller's budgets.

    retry_after_s   seconds until the budget of many calls may allow the call; None if waiting does
                    not help
    """

    def __init__(self, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StatedBudget(msgspec.Struct, frozen=True):
    """The budget of many calls in any 24 hours; None means no limit."""

    credits: int | None = None
    usd: Decimal | None = None
    session: str = ""


def read_budget(values: Iterable[str]) -> StatedBudget | None:
    """Return the budget in the *values* of the header, or None if there are no values.

    Raises UnreadableBudget if they are not a valid budget.
    """
    parts = [part.strip() for value in values for part in value.split(",")]
    fields = dict(part.partition("=")[::2] for part in parts)  # without the separator
    if not parts:
        return None
    if len(fields) < len(parts):  # a field was repeated
        raise UnreadableBudget(FORM)
    try:
        found = msgspec.convert(fields, StatedBudget, strict=False)
    except msgspec.ValidationError:
        raise UnreadableBudget(FORM) from None
    if fields.keys() - set(StatedBudget.__struct_fields__) or not _is_sound(found):
        raise UnreadableBudget(FORM)
    return found


def _is_sound(budget: StatedBudget) -> bool:
    name = budget.session.replace("-", "").replace("_", "").replace(".", "")
    return (
        (budget.credits is None or 1 <= budget.credits <= SHARES_MAX)
        and (budget.usd is None or budget.usd.is_finite())  # first: comparing a NaN raises
        and (budget.usd is None or REQUEST_USD <= budget.usd <= USD_MAX)
        and (not budget.session or (name.isalnum() and name.isascii()))
        and len(budget.session) <= SESSION_MAX
        and not (budget.credits is None and budget.usd is None)
    )


class CallPrice(msgspec.Struct, frozen=True):
    """The cost of a successful call: credits, or a payment of *shares* times REQUEST_USD."""

    credits: int = 0
    shares: int = 0

    @property
    def usd(self) -> Decimal:
        """The amount of the payment in USD; 0 if the call takes no payment."""
        return self.shares * REQUEST_USD


def price_of(cost: ToolCost, arguments: Arguments, *, is_by_credits: bool) -> CallPrice:
    """Return the price of a call; 0 for an unknown bundle, because the API refuses the call."""
    match cost:
        case ToolCost.NOTHING:
            return CallPrice()
        case ToolCost.CREDIT:
            return CallPrice(credits=1) if is_by_credits else CallPrice(shares=1)
        case ToolCost.BUNDLE:
            usd = (bundle.usd for bundle in BUNDLES if str(bundle.credits) == arguments.bundle)
            return CallPrice(shares=int(next(usd, Decimal(0)) / REQUEST_USD))


def expect_within(arguments: Arguments, price: CallPrice) -> None:
    """Raise OverBudget if *price* exceeds a maximum in the arguments of the call."""
    if arguments.max_credits is not None and price.credits > arguments.max_credits:
        raise OverBudget(
            f"This call would take {price.credits} credit; max_credits is"
            f" {arguments.max_credits}. {FREE}"
        )
    if arguments.max_usd is not None and price.usd > arguments.max_usd:
        raise OverBudget(
            f"This call would cost {_shown(price.usd)} USD; max_usd is"
            f" {_shown(arguments.max_usd)}. {FREE}"
        )


class StatedBudgets:
    """Counts the costs of calls against budgets, in the store of the rate limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def reserve(
        self, budget: StatedBudget, price: CallPrice, *, caller: str, payment: str
    ) -> "Reservation":
        """Add *price* to the spending of *caller* under *budget*; return a reservation of it.

        caller    credential of the caller, which may be invalid, or the caller's IP address
        payment   payment sent with the call, as text; "" for none.  The price in USD is counted
                  only with a payment, and only once for each payment
        Raises    OverBudget; then nothing is counted
        """
        key = _digest(caller, budget.session)
        parts: list[Part] = []
        made = Reservation([])
        if budget.credits is not None and price.credits:
            parts.append(Part(self._window("credits", budget.credits), key, price.credits))
        if budget.usd is not None and payment:
            once = Part(self._limits.limiter(PAYMENT), _digest(key, payment), 1)
            if isinstance(await once.window.take(once.key), Admitted):
                made.taken.append(once)
                shares = int(budget.usd / REQUEST_USD)
                parts.append(Part(self._window("payments", shares), key, price.shares))
        await made.take(parts, budget)
        return made

    def _window(self, unit: str, count: int) -> Limiter:
        name = f"budget of {count} {unit}"
        return self._limits.limiter(Limit(name=name, count=count, window_s=WINDOW_S))


class Part(NamedTuple):
    """An amount of credits or payments that a call costs, to be counted in a rate limiter.

    window    counts the spending of a day
    key       names the caller and the session of the budget
    amount    the number to add to the count
    """

    window: Limiter
    key: str
    amount: int


@dataclass(eq=False, repr=False)
class Reservation:
    """The credits and payments that were counted against a caller's budgets for one call.

    taken   the counted amounts, which are subtracted again if the call is not charged
    """

    taken: list[Part]

    async def take(self, parts: Sequence[Part], budget: StatedBudget) -> None:
        """Count *parts* against *budget*.  Raises OverBudget; then nothing is counted."""
        for window, key, count in parts:
            # Checked first: trying to take it would fill the window, and refuse other calls.
            if count > window.limit.count:
                await self.give_back()
                raise OverBudget(_exceeded(budget))
            # A limiter counts requests, so an amount is taken one by one.
            verdicts = await asyncio.gather(*[window.take(key) for _ in range(count)])
            admitted = sum(isinstance(verdict, Admitted) for verdict in verdicts)
            self.taken.append(Part(window, key, admitted))
            if admitted < count:
                await self.give_back()
                last = verdicts[-1]  # can be admitted: the takes run concurrently
                wait_s = last.reset_s if isinstance(last, Admitted) else last.retry_after_s
                raise OverBudget(_exceeded(budget), wait_s)

    async def give_back(self) -> None:
        """Give the amount back to the budget, because nothing was charged."""
        for window, key, count in self.taken:
            await asyncio.gather(*[window.give_back(key) for _ in range(count)])


def _exceeded(budget: StatedBudget) -> str:
    stated = [] if budget.credits is None else [f"{budget.credits} credits"]
    stated += [] if budget.usd is None else [f"{_shown(budget.usd)} USD"]
    name = f" of session {budget.session}" if budget.session else ""
    return (
        f"This call would exceed the budget{name} in {HEADER}: {' and '.join(stated)} in any 24"
        f" hours. {FREE}"
    )


def _digest(*texts: str) -> str:
    """Return a digest of *texts*, so that the store of the rate limits contains no credential."""
    joined = "\0".join(texts).encode(errors="surrogatepass")
    return blake2b(joined, digest_size=KEY_BYTES).hexdigest()


def _shown(usd: Decimal) -> str:
    plain = usd.normalize()
    # A caller may state 1e-999999, which has a million digits.
    return f"{plain:f}" if plain.adjusted() >= SHOWN_EXPONENT_MIN else str(plain)
