"""Checks what part of all exchanges is read, and names the programs that are missed."""

import asyncio
from collections.abc import Iterator
from typing import Final

from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.base.primitives import MICRO_USD, UnixS
from mintscope.base.time import HOUR_S
from mintscope.core.dex.routers import named
from mintscope.core.market.coverage import (
    DAY_HOURS,
    WINDOW_HOURS,
    Coverage,
    MissedProgram,
    Tally,
    jumps,
    missed_programs,
    percent,
    totals,
    unlisted_programs,
    window_start,
)
from mintscope.shell.cli.doctor.finding import Finding, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.stores import market_place, open_market

SHOWN_MAX: Final = 5
# Less than this part of all volume, an unlisted program is only named.
UNLISTED_WARN: Final = 0.01
LOOK: Final = "mintscope programs --unread names the instructions; look for a newer mintscope"
NAME_IT: Final = "it is read by its transfers; dex.programs gives it a name"


def check_coverage(config: Config) -> Iterator[Finding]:
    """Check what was read lately, and within the day before."""
    if market_place(config).is_new:
        return
    try:
        coverage = asyncio.run(_read(config))
    except (UnusableStore, ServiceUnavailable):
        return  # reported by the check of the market
    if coverage is not None:
        yield from findings(coverage, config.api.read_share_min)


async def _read(config: Config) -> Coverage | None:
    async with open_market(config) as market:
        return await market.coverage.coverage(DAY_HOURS + WINDOW_HOURS)


def findings(coverage: Coverage, share_min: float) -> Iterator[Finding]:
    """Yield what *coverage*, of the window and the day before it, says."""
    since = window_start(coverage.time)
    now = totals(coverage.after(since))
    day = totals(coverage.rows)
    if not day.all.calls:
        yield ok("coverage: no tokens were exchanged within the last day")
        return
    yield _shares(coverage, share_min)
    for jump in jumps(coverage):
        missed = jump.now.missed.calls
        calls = jump.now.all.calls
        yield warn(
            f"coverage: {jump.program}: {missed:,} of {calls:,} calls missed since {_clock(since)},"
            f" {jump.before.missed.calls:,} of {jump.before.all.calls:,} in the day before",
            "the program was upgraded, probably: look for a newer mintscope",
        )
    recent = {one.program: one.missed for one in missed_programs(coverage.after(since))}
    for one in _most_missed(coverage, since):
        tally = recent.get(one.program, Tally())
        yield warn(
            f"coverage: {one.program} is missed ({', '.join(one.reasons)}):"
            f" {_told(tally, now.all)} since {_clock(since)},"
            f" {_told(one.missed, day.all)} in the last day",
            LOOK,
        )
    recently = dict(unlisted_programs(coverage.after(since)))
    for program, tally in unlisted_programs(coverage.rows)[:SHOWN_MAX]:
        what = (
            f"coverage: {named(program)} is not in the table:"
            f" {_told(recently.get(program, Tally()), now.all)} since {_clock(since)},"
            f" {_told(tally, day.all)} in the last day"
        )
        is_large = tally.volume >= UNLISTED_WARN * max(1, day.all.volume)
        yield warn(what, NAME_IT) if is_large else ok(what)


def _most_missed(coverage: Coverage, since: UnixS) -> list[MissedProgram]:
    """Return the programs missed most in the day, and those missed most lately."""
    day = missed_programs(coverage.rows)
    lately = [one.program for one in missed_programs(coverage.after(since))[:SHOWN_MAX]]
    shown = dict.fromkeys([*lately, *(one.program for one in day[:SHOWN_MAX])])
    return [one for one in day if one.program in shown]


def _shares(coverage: Coverage, share_min: float) -> Finding:
    since = window_start(coverage.time)
    lately = totals(coverage.after(since)).shares
    day = totals(coverage.rows).shares
    what = (
        f"coverage: since {_clock(since)} {_share(lately.by_volume)} of the volume and"
        f" {_share(lately.by_calls)} of the calls that exchanged tokens were read; in the last day"
        f" {_share(day.by_volume)} and {_share(day.by_calls)}"
    )
    known = [share for share in lately if share is not None]
    if known and min(known) < share_min:
        return warn(what, f"expected {percent(share_min)} (api.read_share_min); {LOOK}")
    return ok(what)


def _share(share: float | None) -> str:
    return "nothing" if share is None else percent(share)


def _told(tally: Tally, whole: Tally) -> str:
    """Return calls and USD in words, and what part of the whole volume that is."""
    calls = "1 call" if tally.calls == 1 else f"{tally.calls:,} calls"
    said = f"{calls}, {tally.volume // MICRO_USD:,} USD"
    if tally.calls > tally.valued:
        said += f" (known of {tally.valued:,})"
    part = tally.volume / whole.volume if whole.volume else 0.0
    return f"{said}, {part:.2%} of the volume".replace("%", " %")


def _clock(at: UnixS) -> str:
    return f"{at // HOUR_S % DAY_HOURS:02}:00 UTC"
