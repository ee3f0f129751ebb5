"""Checks of the newest backup and of its age."""

from collections.abc import Iterator

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.errors import UnusableStore
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.shell.cli.doctor.finding import Finding, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.backups import newest
from mintscope.shell.wiring.stores import money_place


def check_backups(config: Config, clock: Clock | None = None) -> Iterator[Finding]:
    """Show the place of the newest backup; warn if it is older than a day, or if there is none."""
    if money_place(config).is_new:
        return
    try:
        backup = newest(config)
    except UnusableStore:  # the check of the money reports it
        return
    if backup is None:
        fix = "mintscope backup --to DIR, each hour: mintscope-backup.timer of deploy/systemd"
        yield warn("backup: none is noted", fix)
        return
    age_ms = (clock or SystemClock()).now() - backup.at
    what = f"backup: {backup.place}, {age_ms / HOUR_MS:.1f} h old"
    if age_ms > DAY_MS:
        yield warn(what, "does the timer run? Its log says why not")
    else:
        yield ok(what)
