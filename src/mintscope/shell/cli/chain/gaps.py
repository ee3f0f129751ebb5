"""`mintscope gaps`: which slots no source could deliver."""

from typing import Annotated

import typer

from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.output import AsJson, print_rows
from mintscope.shell.cli.stores import with_market

app = typer.Typer()
gap_commands = typer.Typer(help="Which slots no source could deliver.", no_args_is_help=True)
app.add_typer(gap_commands, name="gaps")


@gap_commands.callback()
def gaps() -> None:
    """Which slots no source could deliver."""


@gap_commands.command("list")
def list_gaps(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="COUNT", help="At most so many.")
    ] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the newest gaps: candles lack the swaps of their slots."""
    found = with_market(config, lambda market: market.reader.gaps(limit))
    rows = [(gap.first, gap.last, gap.last - gap.first + 1, gap.reason) for gap in found]
    print_rows(("first", "last", "slots", "reason"), rows, as_json=as_json)
