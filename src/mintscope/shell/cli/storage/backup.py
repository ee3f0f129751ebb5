"""`mintscope backup`: copy the installation, in rotation, and verify that a copy restores."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typing_extensions import override

from mintscope.base.clock import SystemClock
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, print_json, stop
from mintscope.shell.cli.storage.copies import EXIT_NOT_DONE, PEPPER, in_words, showing_progress
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage import backups, places

TAKE: Final = "take"
SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")


class _TakesByDefault(TyperGroup):
    """Runs `take` if no command is named: `mintscope backup FOLDER`.

    Typed with Any in place of types that typer does not publish.
    """

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "-h", "--help"}:
            args = [TAKE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer()
backup_commands = typer.Typer(
    cls=_TakesByDefault,
    help="Copy the installation, which may be running; verify that a copy can be restored.",
)
app.add_typer(backup_commands, name="backup")


@backup_commands.command(TAKE)
def take(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A new folder.", show_default=False)
    ] = None,
    *,
    root: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Create a new folder in DIR, and remove old ones; default: `backup.to`.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Copy the installation, which may be running, into a new folder: `mintscope backup` alone.

    With DIR or `backup.to` backups rotate, by `backup.kept_max` and `backup.keep_days`.
    """
    loaded = configured(config).config
    into = root or loaded.backup.to
    if folder is not None and root is not None:
        raise typer.BadParameter("expected FOLDER or --to; was both", param_hint="FOLDER")
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
    with in_words(), showing_progress() as progress:
        if folder is not None:
            places.back_up(loaded, folder, progress)
            backups.note(loaded, str(folder.resolve()), SystemClock().now())
            made = folder
            removed: list[str] = []
        else:
            assert into is not None
            made = backups.take(loaded, into, progress, SystemClock().now())
            settings = loaded.backup
            removed = [
                str(each)
                for each in backups.rotate(
                    into, kept_max=settings.kept_max, keep_days=settings.keep_days
                )
            ]
    if as_json:
        print_json({"folder": str(made), "removed": removed})
        return
    typer.echo(f"{made} is a complete copy. Restore it by: mintscope restore {made}")
    if removed:
        typer.echo(f"Removed {len(removed)} older ones.")
    _say_where_secrets_are(loaded)


@backup_commands.command("verify")
def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="As `mintscope backup` made it.")
    ],
    *,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder in which the copy is restored for the audit; it is removed again.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Restore a backup into a scratch folder, audit it, and show its contents; exit 1 if unsound.

    Only the settings of the installation are read, and nothing is changed.
    """
    loaded = configured(config).config
    with in_words():
        found = asyncio.run(backups.verify(loaded, folder, scratch, SystemClock()))
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
        print_json(facts)
    else:
        for name, value in facts.items():
            if name != "violations":
                typer.echo(f"{name:14}  {value}")
    if found.violations:
        first = f"{found.violations[0].invariant}: {found.violations[0].subject}"
        stop(
            f"{len(found.violations)} contradictions, the first is {first}. Keep this backup, take"
            " another one, and look at `mintscope sales status`",
            EXIT_NOT_DONE,
        )


def _say_where_secrets_are(config: Config) -> None:
    if config.credits.pepper is not None:
        typer.echo(PEPPER)
    elif config.backup.secrets_to is not None:
        typer.echo(f"pepper and roots are in {config.backup.secrets_to}: restore with --secrets.")
