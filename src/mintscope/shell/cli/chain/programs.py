"""`mintscope programs`: which programs are read as swaps, and what was seen and not read."""

from typing import Annotated

import typer

from mintscope.base.primitives import MICRO_USD
from mintscope.core.dex.programs import BY_ADDRESS
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, print_rows
from mintscope.shell.cli.stores import with_market
from mintscope.shell.wiring.decoding import programs_read

app = typer.Typer()


@app.command()
def programs(
    *,
    unread: Annotated[
        bool,
        typer.Option(
            "--unread", help="Instructions that were seen and not read within the chain's last day."
        ),
    ] = False,
    limit: Annotated[
        int,
        typer.Option(min=1, max=10_000, metavar="COUNT", help="With --unread: at most so many."),
    ] = 100,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the programs whose swaps are read, those that the configuration adds among them.

    With --unread: calls that gave no swap and should have, and programs that are not listed; the
    most value first. The swaps of an `unknown_program` are read by what moved.
    """
    if unread:
        _print_unread(config, limit, as_json=as_json)
        return
    rows = [
        (
            program.name,
            program.address,
            "the programs it calls" if program.read is None else program.how,
            "mintscope" if program.address in BY_ADDRESS else "configuration",
        )
        for program in programs_read(configured(config).config.dex)
    ]
    print_rows(("program", "id", "amountsFrom", "addedBy"), rows, as_json=as_json)


def _print_unread(config: ConfigFile, limit: int, *, as_json: bool) -> None:
    found = with_market(config, lambda market: market.coverage.not_read(limit))
    rows = [
        (one.program, one.reason, one.head, one.count, one.volume // MICRO_USD, one.signature)
        for one in found
    ]
    columns = ("program", "reason", "discriminator", "count", "aboutUsd", "example")
    print_rows(columns, rows, as_json=as_json)
