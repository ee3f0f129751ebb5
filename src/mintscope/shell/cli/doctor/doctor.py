"""`mintscope doctor`: what is wrong with this installation, in words, and how to mend it."""

from collections.abc import Iterator, Sequence
from typing import Final

import typer

from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.doctor.chain import check_chain
from mintscope.shell.cli.doctor.finding import Check, Finding, Level, fail, ok
from mintscope.shell.cli.doctor.machine import check_folder, check_pepper, check_ports, check_sqlite
from mintscope.shell.cli.doctor.mail import check_mail
from mintscope.shell.cli.doctor.pages import check_pages
from mintscope.shell.cli.doctor.payments import check_payments
from mintscope.shell.cli.doctor.store import check_market, check_money
from mintscope.shell.config.config import Config
from mintscope.shell.config.load import ConfigError, load

CHECKS: Final[Sequence[Check]] = (
    check_folder,
    check_sqlite,
    check_pepper,
    check_chain,
    check_market,
    check_money,
    check_payments,
    check_mail,
    check_pages,
    check_ports,
)

app = typer.Typer()


@app.command()
def doctor(config: ConfigFile = None) -> None:
    """Look for everything that keeps the service from working; exit 1 if there is something."""
    try:
        loaded = load(config)
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(fail(f"configuration: {problem}", "mintscope config --markdown lists all"))
        raise typer.Exit(1) from None
    typer.echo(ok(f"configuration: {loaded.file or 'no file, environment and defaults'}"))
    has_failed = False
    for finding in findings(loaded.config, CHECKS):
        typer.echo(finding)
        has_failed = has_failed or finding.level is Level.FAIL
    raise typer.Exit(1 if has_failed else 0)


def findings(config: Config, checks: Sequence[Check]) -> Iterator[Finding]:
    """Yield what *checks* find, as they find it."""
    for check in checks:
        yield from check(config)
