"""Compares the price by a rule with the price of the honest pools in a simulated market."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from prove.prices.market import START, Trade
from prove.prices.rules import Rule

OFF: Final = 0.02
TRUTH_S: Final = 60


class Judged(NamedTuple):
    """The comparison of a rule's price with the true price.

    worst      the largest ratio of the two prices, the larger over the smaller: 1.0 is no error
    off_s      the number of seconds in which the error was more than OFF
    seconds    the number of seconds that were compared
    longest_s  the longest time without a break, in seconds, in which the error was more than OFF
    """

    worst: float
    off_s: int
    seconds: int
    longest_s: int


def judge(
    rule: Rule,
    trades: Sequence[Trade],
    *,
    since_s: int = 0,
    truth: Callable[[Trade], bool] | None = None,
) -> Judged:
    """Compare the price by *rule* with the true price in each second from *since_s* on.

    truth   returns whether a swap sets the true price, until the next such swap; None: each honest
            swap sets it
    """
    served = true = 0.0
    worst = 1.0
    off = 0
    longest = 0
    run = 0
    second = START + since_s
    seconds = 0
    end = trades[-1].offer.time + 1
    position = 0
    while second <= end:
        while position < len(trades) and trades[position].offer.time <= second:
            one = trades[position]
            position += 1
            if rule.sets_price(one.offer):
                served = one.offer.usd
            if not one.is_attack if truth is None else truth(one):
                true = one.offer.usd
        if served and true:
            seconds += 1
            apart = max(served / true, true / served)
            worst = max(worst, apart)
            run = run + 1 if apart > 1 + OFF else 0
            off += run > 0
            longest = max(longest, run)
        second += 1
    return Judged(worst, off, seconds, longest)


def least_capital(
    make: Callable[[], Rule],
    attack: Callable[[float], tuple[Sequence[Trade], int]],
    *,
    most: float,
    off_s: int = TRUTH_S,
) -> float | None:
    """Return the least amount with which *attack* moves the price by over OFF for *off_s* seconds.

    The amount is in dollars, and at most 1 % or a dollar too large.

    most     the largest amount that is tried; None is returned if it does not suffice
    attack   a function from dollars to trades and the second from which they are compared
    """

    def moves(usd: float) -> bool:
        trades, since_s = attack(usd)
        return judge(make(), trades, since_s=since_s).off_s >= off_s

    if not moves(most):
        return None
    low = 0.0
    high = most
    while high - low > max(1.0, low / 100):
        middle = (low + high) / 2
        low, high = (low, middle) if moves(middle) else (middle, high)
    return high


def extreme(rule: Rule, trades: Iterable[Trade], since_s: int = 0) -> float:
    """Return the largest error of the price of *rule* after a swap of the attacker.

    It is the ratio of that price to the honest price before it, or its inverse: at least 1.
    """
    most = true = 1.0
    for one in trades:
        sets = rule.sets_price(one.offer)
        if not one.is_attack:
            true = one.offer.usd
        elif sets and one.offer.time >= START + since_s:
            most = max(most, one.offer.usd / true, true / one.offer.usd)
    return most
