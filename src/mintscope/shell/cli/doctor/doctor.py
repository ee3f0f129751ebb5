"""`mintscope doctor`: what is wrong with this installation, and how to fix it."""

from collections.abc import Iterator
from typing import Final

import typer

from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.doctor.chain import check_chain
from mintscope.shell.cli.doctor.finding import Finding, Level, fail, ok
from mintscope.shell.cli.doctor.machine import check_folder, check_pepper, check_ports, check_sqlite
from mintscope.shell.cli.doctor.payments import check_payments
from mintscope.shell.cli.doctor.site import check_mail, check_pages
from mintscope.shell.cli.doctor.store import check_market, check_money
from mintscope.shell.cli.output import AsJson, print_json
from mintscope.shell.config.load import ConfigError, load

CHECKS: Final = (
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
def doctor(*, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Check the installation; exit 1 if something keeps the service from working."""
    found = []
    for finding in _findings(config):
        found.append(finding)
        if not as_json:
            typer.echo(finding)
    if as_json:
        print_json([finding.as_json() for finding in found])
    raise typer.Exit(1 if any(finding.level is Level.FAIL for finding in found) else 0)


def _findings(file: ConfigFile) -> Iterator[Finding]:
    """Yield what every check finds, when it finds it."""
    try:
        loaded = load(file)
    except ConfigError as error:
        for problem in error.problems:
            yield fail(f"configuration: {problem}", "mintscope config --markdown lists all")
        return
    yield ok(f"configuration: {loaded.file or 'no file, environment and defaults'}")
    for check in CHECKS:
        yield from check(loaded.config)
