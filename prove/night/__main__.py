"""`make night`: causes each fault of a running service, and checks its signs for an operator.

Within 60 s, at least two of these must name the fault: the log; an alert of a real Prometheus with
the rules of deploy/; /v1/health and /status; and `mintscope doctor`.  The rules are evaluated as
they are shipped; Prometheus reads metrics every 5 s.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from prove.night.installation import Installation, NotReady, installation
from prove.night.rows import ROWS, Row
from prove.night.signs import Observer, Signs

GOAL_S: Final = 60.0
GOAL_PLACES: Final = 2
ALERT_S: Final = 150.0  # seconds to wait for an alert, which can take longer than the goal
HEALED_S: Final = 90.0
KINDS: Final = ("sqlite", "stream", "postgres", "quiet")


def main() -> int:
    """Cause each chosen fault; print a table of what named it. Return 1 if one was not named."""
    rows, waits_for_alerts = _arguments()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a row at once
    print(_line("fault", "/readyz", "log", "alert", "status", "doctor", "named in 60 s"))
    named = 0
    for kind in KINDS:
        chosen = [row for row in rows if row.kind == kind]
        if not chosen:
            continue
        try:
            with installation(kind) as running:
                for row in chosen:
                    named += _try(running, row, waits_for_alerts)
        except NotReady as trouble:
            print(f"{kind}: {trouble}")
    print(f"\n{named} of {len(rows)} rows are named within {GOAL_S:.0f} s")
    return 0 if named == len(rows) else 1


def _arguments() -> tuple[Sequence[Row], bool]:
    parser = argparse.ArgumentParser(prog="python -m prove.night", description=__doc__)
    parser.add_argument("--only", action="append", metavar="WORDS", help="rows with these words")
    parser.add_argument(
        "--no-alerts", action="store_true", help=f"do not wait for alerts after {GOAL_S:.0f} s"
    )
    given = parser.parse_args()
    wanted = given.only or [""]
    rows = [row for row in ROWS if any(words in row.name for words in wanted)]
    if not rows:
        parser.error("expected words of: " + "; ".join(row.name for row in ROWS))
    return rows, not given.no_alerts


def _try(running: Installation, row: Row, waits_for_alerts: bool) -> bool:  # noqa: FBT001 - of main
    """Cause the fault of *row*, and print the signs of it; return whether enough signs named it."""
    if row.after_s:
        time.sleep(row.after_s)
        running.wait_ready(HEALED_S)  # a busy machine can have disturbed the service
    observer = Observer(running, row.naming)
    with row.breaks(running):
        observer.observe(GOAL_S, ALERT_S if waits_for_alerts else GOAL_S)
    signs = observer.signs
    is_named = len(signs.within(GOAL_S)) >= GOAL_PLACES
    print(_line(row.name, *_reported(signs), ", ".join(signs.within(GOAL_S)) or "NONE"))
    for where, said in signs.said.items():
        print(f"    {where}: {said[:220]}")
    if not is_named:
        print(f"    MISSED; the first line was: {signs.first_line or 'none'}")
    _heal(running, row)
    return is_named


def _heal(running: Installation, row: Row) -> None:
    try:
        took_s = running.wait_ready(HEALED_S)
    except NotReady as trouble:
        print(f"    NOT HEALED from {row.name!r}: {trouble}")
        raise
    print(f"    ready again after {took_s:.1f} s")
    time.sleep(6.0)  # time for a run of the checks, and for a read of metrics


def _reported(signs: Signs) -> list[str]:
    ready = "stays" if signs.ready_changed_s is None else f"503 {signs.ready_changed_s:.0f} s"
    places = ("log", "alerts", "status", "doctor")
    return [ready, *(_seconds(signs.named_s.get(place)) for place in places)]


def _seconds(at_s: float | None) -> str:
    return "-" if at_s is None else f"{at_s:.0f} s"


def _line(*cells: str) -> str:
    first, *others = cells
    return f"{first:48}" + "".join(f"{each:>10}" for each in others[:-1]) + f"  {others[-1]}"


if __name__ == "__main__":
    sys.exit(main())
