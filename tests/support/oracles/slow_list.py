"""The expected list of tokens, computed slowly from the swaps alone.

This module shares no code with the tested list: every value is computed again from all swaps.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from support.oracles.definitions import WIDTHS, rsi

FOR_ALL = 200


class Reported(NamedTuple):
    """A swap of a tracked mint in a final slot."""

    mint: str
    time: int
    volume: int
    usd: float | None
    sol: float | None
    is_buy: bool


class Expected(NamedTuple):
    usd: float | None
    sol: float | None
    changes: tuple[float | None, float | None, float | None]
    volume: int
    swaps: int
    ready: list[str]
    day: list[float | None]
    rsi: float | None
    pressure: float | None
    since: int | None


def starts(now: int) -> tuple[int, int, int]:
    """Return the starts of the windows m5, h1 and d1 at *now*.

    m5 and h1 start at a whole minute, d1 at a multiple of 24 minutes.
    """
    minute, part = now - now % 60, now - now % 1440
    return minute - 4 * 60, minute - 59 * 60, part - 59 * 1440


def expected(mint: str, swaps: Sequence[Reported], now: int) -> Expected:
    """Return the expected line of *mint* at *now*; *swaps* are all swaps since tracking began."""
    own = [swap for swap in swaps if swap.mint == mint]
    priced = [(swap.time, swap.usd) for swap in own if swap.usd is not None]
    m5, h1, d1 = (_change(priced, start) for start in starts(now))
    _, hour, day = starts(now)
    is_young = bool(priced) and priced[0][0] >= day
    if is_young:
        d1 = priced[-1][1] / priced[0][1] - 1.0
    hours = {time // 3600: usd for time, usd in priced}
    within = [swap for swap in own if swap.time >= hour]
    traded = sum(swap.volume for swap in within)
    bought = sum(swap.volume for swap in within if swap.is_buy)
    return Expected(
        usd=priced[-1][1] if priced else None,
        sol=next((swap.sol for swap in reversed(own) if swap.usd is not None), None),
        changes=(m5, h1, d1),
        volume=sum(swap.volume for swap in own if swap.time >= day),
        swaps=sum(time >= day for time, _ in priced),
        ready=[
            name
            for name, width in WIDTHS.items()
            if len({time // width for time, _ in priced}) >= FOR_ALL
        ],
        day=[_newest(priced, day + 1440 * part) for part in range(60)] + [_newest(priced, now + 1)],
        rsi=rsi([*hours.values()])[-1] if hours else None,
        pressure=bought / traded if traded else None,
        since=priced[0][0] // 60 * 60 if is_young else None,
    )


def _newest(priced: Sequence[tuple[int, float]], before: int) -> float | None:
    return next((usd for time, usd in reversed(priced) if time < before), None)


def _change(priced: Sequence[tuple[int, float]], start: int) -> float | None:
    before = [usd for time, usd in priced if time < start]
    return priced[-1][1] / before[-1] - 1.0 if before else None


def in_order(
    values: Mapping[str, float | None], keys: Mapping[str, int], *, is_rising: bool
) -> list[str]:
    """Return the mints by value, then by key; mints without a value are last in both directions."""
    known = sorted(
        (mint for mint in values if values[mint] is not None),
        key=lambda mint: (values[mint], keys[mint]),
    )
    without = sorted((mint for mint in values if values[mint] is None), key=keys.__getitem__)
    if not is_rising:
        known, without = known[::-1], without[::-1]
    return known + without
