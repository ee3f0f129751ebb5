"""`mintscope upgrade`: upgrade the store, or show what the upgrade would do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from mintscope import __version__
from mintscope.base.clock import SystemClock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, moment, print_json, stop
from mintscope.shell.cli.storage.copies import EXIT_NOT_DONE, in_words
from mintscope.shell.wiring.processes.build import commit
from mintscope.shell.wiring.storage.migrations import migrations
from mintscope.shell.wiring.storage.upgrade import Plan, Writer, plan

DIGITS: Final = 2
MB: Final = 1_000_000

app = typer.Typer()


@app.command("upgrade")
def upgrade(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Show what would be done, and do nothing.")
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder for the copy that is measured; by default beside the store.",
            show_default=False,
        ),
    ] = None,
    without_backup: Annotated[
        bool,
        typer.Option("--without-backup", help="Upgrade though no backup of the last day is noted."),
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Upgrade the store to this version, or show what the upgrade takes.

    --check upgrades and times a copy of the store, and leaves the store as it is.
    """
    settings = configured(config).config
    now = SystemClock().now()
    with in_words():
        if check:
            found = plan(settings, scratch)
        else:
            found = plan(settings, measures=False)
            if found.waiting and not without_backup:
                _expect_backup(found, now)
            migrations(settings, is_done=True)
    if as_json:
        print_json(_facts(found, is_done=not check))
    else:
        print("\n".join(_words(found, now) if check else _done(found)))
    if check and found.bytes_free is not None and found.bytes_needed > found.bytes_free:
        stop("The disk of the store has too little free space: free some.", EXIT_NOT_DONE)


def _expect_backup(found: Plan, now: UnixMs) -> None:
    if found.backup is None:
        why = "none is noted"
    elif now - found.backup.at > DAY_MS:
        why = f"the newest is of {moment(found.backup.at)}: {found.backup.place}"
    else:
        return
    stop(
        f"expected a backup of the last day, taken by the version that runs; {why}. There is no way"
        " back without one. Take it, or pass --without-backup",
        EXIT_NOT_DONE,
    )


def _facts(found: Plan, *, is_done: bool) -> dict[str, object]:
    backup = found.backup
    return {
        "version": __version__,
        "commit": commit(),
        "isDone": is_done,
        "migrations": list(found.waiting),
        "writtenBy": [
            {"version": each.version, "commit": each.commit or None, "since": _since(each)}
            for each in found.writers
        ],
        "backup": None
        if backup is None
        else {"at": moment(backup.at), "place": backup.place, "version": backup.version},
        "steps": [
            {"store": each.store, "migration": each.name, "tookS": round(each.took_s, DIGITS)}
            for each in found.steps
        ],
        "whyNotMeasured": found.why_not or None,
        "bytesNeeded": found.bytes_needed,
        "bytesFree": found.bytes_free,
    }


def _since(writer: Writer) -> str | None:
    return moment(writer.first_at) if writer.first_at else None


def _words(found: Plan, now: UnixMs) -> Iterator[str]:
    yield f"this is     mintscope {__version__}, commit {commit() or 'unknown'}"
    for each in found.writers:
        since = f", since {_since(each)}" if each.first_at else ""
        yield f"written by  mintscope {each.version}, commit {each.commit or 'unknown'}{since}"
    if not found.waiting:
        yield "Nothing to do: the store is of this version."
        return
    yield f"to run      {len(found.waiting)} migrations"
    times = {(each.store, each.name): each.took_s for each in found.steps}
    for waiting in found.waiting:
        store, _, name = waiting.partition(" ")
        took = times.get((store, name))
        yield f"            {waiting}{'' if took is None else f'  {took:.2f} s'}"
    if found.why_not:
        yield f"takes       not measured: {found.why_not}"
    else:
        total_s = sum(times.values())
        yield f"takes       {total_s:.1f} s, as measured on a copy of this data"
    if found.bytes_free is not None:
        needed = found.bytes_needed / MB
        free = found.bytes_free / MB
        yield f"disk        {needed:,.0f} MB more; {free:,.0f} MB are free"
    backup = found.backup
    if backup is None:
        yield "backup      none is noted: take one with the version that runs, there is no way back"
    else:
        age_h = (now - backup.at) / HOUR_MS
        yield f"backup      {backup.place}, {age_h:.1f} h old, by mintscope {backup.version}"
    yield "Then: stop the service, install, run mintscope upgrade, and start the service."


def _done(found: Plan) -> Iterator[str]:
    yield from (f"ran {each}" for each in found.waiting)
    yield f"The store is of mintscope {__version__}."
