"""Commands about the store: back up, verify, restore, copy, compact, migrate, upgrade."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from mintscope import __version__
from mintscope.app.cli import output
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.stores import without_log
from mintscope.app.config.groups import Config
from mintscope.app.config.load import UnusableSecretFile, read_secret
from mintscope.app.engine import engine_of
from mintscope.app.following import kept_list
from mintscope.app.running.commit import commit
from mintscope.app.stores import backups
from mintscope.app.stores import stores as installation
from mintscope.app.stores.copying import Progress, copy_installation, has_password
from mintscope.app.stores.upgrade import Plan, Writer, has_records, plan
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import ServiceUnavailable, StoreUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS

PEPPER: Final = (
    "Back up the pepper, too: it is configured outside the data folder. Without the pepper, every"
    " credit token is void."
)
FILE: Final = "file:"
EXPOSED: Final = (
    "Every user of this machine can see the password while this command runs: put the address into"
    " a file, and pass file:PATH."
)
NEWER: Final = (
    "Changes after the backup are missing, so credits that were spent after it can be spent again."
    " Start the service. After a minute, `mintscope sales orphans` lists the payments that are on"
    " the chain and not in the copy."
)
NO_PEPPER: Final = (
    "The backup has no pepper, without which all credentials are void: before you start the"
    " service, copy the file pepper into {}, or set credits.pepper."
)

app = typer.Typer()


@app.command("copy")
def copy_all(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="The place to copy from: sqlite:FOLDER, postgresql://HOST/NAME, or file:PATH of a"
            " file that holds such an address.",
        ),
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="An empty place of the same form.")
    ],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Copy a stopped installation to another engine, and compare every row.

    While the command runs, every user of the machine can see a password in a PLACE, but not a
    password in a file.
    """
    with showing_progress() as progress:
        sums = copy_installation(_place(source), _place(target), progress)
    rows = [(name, each.rows, each.hash[:16]) for name, each in sums.items()]
    output.print_rows(("table", "rows", "hash"), rows, as_json=as_json)
    if as_json:
        return
    typer.echo(
        "Copied and compared. The pepper is not in the database: see docs/operating/scale.md."
    )


@app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A backup made by `mintscope backup`.")
    ],
    *,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of `pepper` and `roots`, if they are not in FOLDER; `backup.secrets_to` by"
            " default.",
        ),
    ] = None,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Copy a backup into an installation that is empty and does not run."""
    settings = configured(config).config
    with showing_progress() as progress:
        installation.restore(settings, folder, progress, secrets=secrets)
    if as_json:
        output.print_json({"restored": str(folder)})
    if not installation.has_pepper(settings):
        typer.echo(NO_PEPPER.format(settings.data_dir), err=True)
    typer.echo(NEWER, err=as_json)


@app.command()
def migrate(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Bring the store to the newest schema, as every process does at its start."""
    settings = configured(config).config
    ran = engine_of(settings).migrations(is_done=not dry_run)
    if as_json:
        output.print_json({"migrations": ran, "isDone": not dry_run})
        return
    if not ran:
        typer.echo("Nothing to do: the schema is up to date.")
    for each in ran:
        typer.echo(f"{'would run' if dry_run else 'ran'} {each}")


def _place(text: str) -> str:
    if text.startswith(FILE):
        with output.refusing("PLACE", UnusableSecretFile):
            return read_secret(Path(text.removeprefix(FILE)).expanduser())
    if has_password(text):
        typer.echo(EXPOSED, err=True)
    return text


@contextmanager
def showing_progress() -> Iterator[Progress]:
    """Show the progress of a copy on a terminal; elsewhere, print a line for each table."""
    console = Console(stderr=True)
    counts = dict[str, int]()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    is_shown = console.is_terminal
    with Bar(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("")

        def show(what: str, count: int) -> None:
            if what not in counts and not is_shown:
                console.print(what)
            counts[what] = counts.get(what, 0) + count
            bar.update(task, description=f"{what}: {counts[what]}")

        yield show


# A single slash, because `Path` turns s3://bucket into s3:/bucket.
SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")


backup_commands = typer.Typer(
    cls=output.RunsByDefault,
    help="Copy the installation, which may be running; verify that a copy can be restored.",
)
app.add_typer(backup_commands, name="backup")


@backup_commands.command()
def take(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="A new folder.")] = None,
    *,
    root: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Create a new folder in DIR, and remove old ones; default: `backup.to`.",
        ),
    ] = None,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Copy the installation, which may be running, into a new folder; `take` may be omitted.

    Without FOLDER, old backups are deleted: see `backup.kept_max` and `backup.keep_days`.
    """
    loaded = configured(config).config
    into = root or loaded.backup.to
    if folder is not None and root is not None:
        raise typer.BadParameter("expected FOLDER or --to; there were both", param_hint="FOLDER")
    for name, place in (("FOLDER", folder), ("--to", root)):
        if place is not None and SCHEME.match(str(place)):
            raise typer.BadParameter(
                "expected a folder; mintscope speaks no S3: back up into a folder, and copy it by"
                " rclone or restic, see docs/operating/back-up.md",
                param_hint=name,
            )
    if folder is None and into is None:
        raise typer.BadParameter(
            "expected FOLDER, --to DIR or the setting backup.to", param_hint="FOLDER"
        )
    removed: Sequence[Path] = ()
    # The time before the copy, because later changes may not be in it.
    now = SystemClock().now()
    with showing_progress() as progress:
        if folder is not None:
            made = folder
            installation.back_up(loaded, folder, progress)
            backups.note(loaded, str(folder.resolve()), now)
        else:
            assert into is not None
            made = backups.take(loaded, into, progress, now)
            limits = loaded.backup
            removed = backups.rotate(into, kept_max=limits.kept_max, keep_days=limits.keep_days)
    if as_json:
        output.print_json({"folder": str(made), "removed": [*map(str, removed)]})
        return
    typer.echo(f"{made} is a complete copy. Restore it by: mintscope restore {made}")
    if removed:
        typer.echo(f"Removed {len(removed)} older backups.")
    if loaded.credits.pepper is not None:
        typer.echo(PEPPER)
    elif loaded.backup.secrets_to is not None:
        typer.echo(f"pepper and roots are in {loaded.backup.secrets_to}: restore with --secrets.")


@backup_commands.command()
def verify(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Backups made by `mintscope backup`.")
    ],
    *,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "The folder in which the copy is restored for the audit; the folder is removed"
                " afterwards."
            ),
        ),
    ] = None,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Restore a backup into a scratch folder, audit it, and show its contents; exit 1 if unsound.

    The command reads the settings of the installation, but not its store, and changes neither.
    Several backups are verified one after the other, until one is unsound; --json prints an object
    for each.
    """
    loaded = configured(config).config
    for folder in folders:
        found = asyncio.run(backups.verify(loaded, folder, scratch, SystemClock()))
        _show_verified(folder, found, as_json=as_json)


def _show_verified(folder: Path, found: backups.Verified, *, as_json: bool) -> None:
    facts = {
        "folder": str(folder),
        "isSound": not found.violations,
        "slot": found.slot,
        "creditTokens": found.credit_tokens,
        "entries": found.entries,
        "payments": found.payments,
        "migrationsRun": found.migrations,
        "tookS": found.took_s,
        "violations": [f"{each.invariant}: {each.subject}" for each in found.violations],
    }
    if as_json:
        output.print_json(facts)
    else:
        for name, value in facts.items():
            if name != "violations":
                typer.echo(f"{name:14}  {value}")
    if found.violations:
        first = f"{found.violations[0].invariant}: {found.violations[0].subject}"
        output.stop(
            f"{len(found.violations)} contradictions, the first is {first}. Keep this backup, take"
            " another one, and run `mintscope sales status`",
            output.EXIT_NOT_DONE,
        )


DIGITS: Final = 2
MB: Final = 1_000_000


@app.command()
def upgrade(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Show the changes without making them.")
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder for the copy that is measured; by default beside the store.",
        ),
    ] = None,
    without_backup: Annotated[
        bool,
        typer.Option(
            "--without-backup", help="Upgrade even if there is no backup from the last day."
        ),
    ] = False,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Upgrade the store to this version, or show the cost of the upgrade.

    --check measures the upgrade, on a copy or in a transaction that is rolled back; the store
    itself stays unchanged.
    """
    settings = configured(config).config
    now = SystemClock().now()
    if check:
        found = plan(settings, scratch)
    else:
        found = plan(settings, measures=False)
        if found.waiting and not without_backup:
            _expect_backup(found, now)
        engine_of(settings).migrations(is_done=True)
    listed = None if check else _listed(settings)
    if as_json:
        counted = listed if isinstance(listed, int) else None
        why_not = None if isinstance(listed, int) else listed
        facts = {"tokensListed": counted, "whyNotListed": why_not}
        output.print_json(_facts(found, is_done=not check) | facts)
    else:
        print("\n".join(_words(found, now) if check else _done(found, listed)))
    if check and found.bytes_free is not None and found.bytes_needed > found.bytes_free:
        output.stop(
            "The disk of the store has too little free space: free some.", output.EXIT_NOT_DONE
        )


def _expect_backup(found: Plan, now: UnixMs) -> None:
    if found.backup is None:
        is_old = not has_records(found.waiting)
        why = "the store is too old to record one" if is_old else "none is recorded"
    elif now - found.backup.at > DAY_MS:
        why = f"the newest is of {output.moment(found.backup.at)}: {found.backup.place}"
    else:
        return
    output.stop(
        f"expected a backup from the last day; {why}. Without a backup, the upgrade cannot be"
        " undone. Take a backup, or pass --without-backup",
        output.EXIT_NOT_DONE,
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
        else {"at": output.moment(backup.at), "place": backup.place, "version": backup.version},
        "steps": [
            {"store": each.store, "migration": each.name, "tookS": round(each.took_s, DIGITS)}
            for each in found.steps
        ],
        "whyNotMeasured": found.why_not or None,
        "bytesNeeded": found.bytes_needed,
        "bytesFree": found.bytes_free,
    }


def _since(writer: Writer) -> str | None:
    return output.moment(writer.first_at) if writer.first_at else None


def _words(found: Plan, now: UnixMs) -> Iterator[str]:
    yield f"this is     mintscope {__version__}, commit {commit() or 'unknown'}"
    for each in found.writers:
        since = f", since {_since(each)}" if each.first_at else ""
        yield f"written by  mintscope {each.version}, commit {each.commit or 'unknown'}{since}"
    if not found.waiting:
        yield "Nothing to do: the store has this version."
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
        yield (
            "backup      none is recorded. Take one with the running version: without a backup, the"
            " upgrade cannot be undone"
        )
    else:
        age_h = (now - backup.at) / HOUR_MS
        yield f"backup      {backup.place}, {age_h:.1f} h old, by mintscope {backup.version}"
    yield "Then: stop the service, install, run mintscope upgrade, and start the service."


def _listed(settings: Config) -> int | str:
    """Store the list of all tokens, so that the next start of an api process is faster.

    Return the number of tokens in the list, or the reason why it was not stored.  Raises
    UnusableStore.
    """
    try:
        with without_log():
            return asyncio.run(kept_list(settings, SystemClock()))
    except (ServiceUnavailable, StoreUnavailable) as error:
        return str(error)


def _done(found: Plan, listed: int | str | None) -> Iterator[str]:
    yield from (f"ran {each}" for each in found.waiting)
    if isinstance(listed, int):
        yield f"stored the list of {listed:,} tokens for the next start of an api"
    elif listed is not None:
        yield f"did not store the list of tokens for the next start of an api: {listed}"
    yield f"The store is of mintscope {__version__}."


@app.command()
def compact(*, as_json: output.AsJson = False, config: ConfigFile = None) -> None:
    """Rewrite the files of a stopped installation without unused space."""
    done = engine_of(configured(config).config).compact()
    output.print_rows(("file", "bytesBefore", "bytesAfter"), done, as_json=as_json)
