"""Prints the error of each rule in each simulated market: `python -m prove.prices`."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from prove.prices.judged import Judged, extreme, judge, least_capital
from prove.prices.market import Trade
from prove.prices.rules import RULES, Rule
from prove.prices.scenarios import (
    Scenario,
    after_a_fee_that_falls,
    by_turns,
    cents_after_quiet,
    cents_near,
    changes_pool,
    for_a_second,
    for_a_second_in_many,
    is_deep,
    junk,
    launches,
    leaves_curve,
    many_pools,
    out_of_range,
    over_a_window,
    puts_out,
    rich,
    second_market,
    seen_in_many,
    stranger_in_first_minutes,
    turned_over,
    washed,
)

Make = Callable[[], Rule]
Made = Callable[[int], Scenario]

FOLLOWED: Final[dict[str, Made]] = {
    "leaves its curve, -40 % in 20 s": partial(leaves_curve, moves=0.6),
    "leaves its curve, +25 % in 20 s": partial(leaves_curve, moves=1.25),
    "leaves its curve, +8 % in 20 s": partial(leaves_curve, moves=1.08),
    "leaves a curve of two minutes, -40 %": partial(leaves_curve, moves=0.6, curve_s=120),
    "goes to a new pool of all its depth, x3": partial(
        changes_pool, part=1.0, moves=3.0, is_known=False
    ),
    "goes to a new pool of half its depth, +30 %": partial(
        changes_pool, part=0.5, moves=1.3, is_known=False
    ),
    "goes to a known pool of a quarter, -50 %": partial(changes_pool, part=0.25, moves=0.5),
    "a swap every 10 s, to a known pool of a half": partial(
        changes_pool, part=0.5, moves=1.3, every_s=10.0
    ),
}
RESISTED: Final[dict[str, Made]] = {
    "one trade of 2.5 SOL at x5, two pools of 150 SOL": stranger_in_first_minutes,
    "a second market of a venue that names no pool, at x3": second_market,
    "ten cents at +4.9 %, 200 times": cents_near,
    "35 s of quiet, 0.002 SOL at x20": cents_after_quiet,
    "5 x 10,000 SOL at x500": washed,
    "600 x 600,000,000 USD of a made-up quote at x3": turned_over,
    "500 pools of 10 USD at x3": junk,
    "1,000,000 USD for one second at +50 %": for_a_second,
    "1,000,000 USD in ten pools within a second at +50 %": for_a_second_in_many,
    "1.5 times the depth, out of range": out_of_range,
    "1,000,000 USD for a second over the end of a half minute at +50 %": over_a_window,
}
RICH: Final[dict[str, Callable[[float], tuple[Sequence[Trade], int]]]] = {
    "while it trades every 2 s": rich,
    "while it trades every 20 s": partial(rich, every_s=20.0),
    "while it trades every 2 s, by a pool of ten minutes": partial(rich, early_s=700),
    "after its fee fell from 50 % to 1 % in ten minutes": after_a_fee_that_falls,
    "after its fee fell, in 35 s of quiet": partial(after_a_fee_that_falls, quiet_s=35),
    "in four pools while it trades every 2 s, by a sum in eight": puts_out,
    "in four pools in 35 s of quiet, by a sum in eight": partial(puts_out, quiet_s=35),
    "in nine pools in 35 s of quiet, by a sum in eight": partial(puts_out, quiet_s=35, pools=9),
    "in sixteen pools in 35 s of quiet, by a sum in eight": partial(puts_out, quiet_s=35, pools=16),
    "in two pools in 35 s of quiet, by a sum in sixteen": seen_in_many,
    "in sixteen pools in 35 s of quiet, by a sum in sixteen": partial(seen_in_many, pools=16),
    "in five pools that trade every 4 s, by a sum in sixteen": partial(
        seen_in_many, pools=5, quiet_s=0, traded=8, every_s=4.0
    ),
    "in 35 s of quiet": partial(rich, quiet_s=35),
    "in 5 minutes of quiet": partial(rich, quiet_s=300),
    "in an hour of quiet": partial(rich, quiet_s=3_600),
    "in 35 s of quiet, by one sum in two pools by turns": partial(by_turns, pools=2),
    "in 35 s of quiet, by one sum in seven pools by turns": by_turns,
    "in 5 minutes of quiet, by one sum in seven pools by turns": partial(by_turns, quiet_s=300),
}


def main() -> None:
    """Print a table of the errors of each rule in each simulated or recorded market."""
    parser = argparse.ArgumentParser(prog="python -m prove.prices", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="of each made market")
    seeds = range(parser.parse_args().seeds)
    names = list(RULES)
    print("| market | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for title, row in _rows(seeds):
        print(f"| {title} | " + " | ".join(row(RULES[name]) for name in names) + " |")


def _rows(seeds: range) -> list[tuple[str, Callable[[Make], str]]]:
    rows: list[tuple[str, Callable[[Make], str]]] = []
    rows += [(f"{name}: s off", partial(_longest, made, seeds)) for name, made in FOLLOWED.items()]
    rows.append(("real launches behind a curve: % of s off, worst", _real))
    rows.append(("three honest pools: % of s off, worst", partial(_lively, seeds)))
    rows += [
        (f"{name}: s off, worst", partial(_off, made, seeds)) for name, made in RESISTED.items()
    ]
    rows += [
        (f"USD to move 100,000 by 2 % {name}", partial(_cost, made)) for name, made in RICH.items()
    ]
    return rows


def _longest(made: Made, seeds: range, make: Make) -> str:
    return f"{max(_judged(make, made(seed)).longest_s for seed in seeds)}"


def _off(made: Made, seeds: range, make: Make) -> str:
    judged = [_judged(make, made(seed)) for seed in seeds]
    printed = max(extreme(make(), *made(seed)) for seed in seeds)
    return f"{max(one.off_s for one in judged)}, x{printed:.3g}"


def _real(make: Make) -> str:
    return _share([_judged(make, scenario) for _, scenario in launches()])


def _lively(seeds: range, make: Make) -> str:
    scenarios = [many_pools(seed) for seed in seeds]
    return _share(
        [judge(make(), one.trades, since_s=one.since_s, truth=is_deep) for one in scenarios]
    )


def _share(judged: Sequence[Judged]) -> str:
    if not judged:
        return "no data"
    off = sum(one.off_s for one in judged) / sum(one.seconds for one in judged)
    return f"{100 * off:.2f} %, x{max(one.worst for one in judged):.3g}"


def _cost(made: Callable[[float], tuple[Sequence[Trade], int]], make: Make) -> str:
    least = least_capital(make, made, most=1_000_000.0)
    return "> 1,000,000" if least is None else f"{least:,.0f}"


def _judged(make: Make, scenario: Scenario) -> Judged:
    return judge(make(), scenario.trades, since_s=scenario.since_s)


if __name__ == "__main__":
    main()
