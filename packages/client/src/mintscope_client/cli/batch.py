"""`mintscope batch`: prints the reports of several tokens."""

from typing import Annotated

import msgspec
import typer

from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.connection import CredentialFile, MaxCredits, Patience, Url, connected
from mintscope_client.cli.tables import AsJson, Cell, print_json, print_rows
from mintscope_client.endpoints.reports import ReportOrNot

app = typer.Typer()


@app.command()
def batch(
    mints: Annotated[list[str], typer.Argument(metavar="MINT...", help="The mints, up to 50.")],
    url: Url,
    credential_file: CredentialFile = None,
    max_credits: MaxCredits = None,
    patience_s: Patience = PATIENCE_S,
    *,
    as_json: AsJson = False,
) -> None:
    """Read reports of several tokens from a service; each delivered report costs a credit."""
    with connected(url, credential_file, max_credits, patience_s) as client:
        found = client.batch(mints)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    heads = ["token", "usd", "sol", "rsiM1", "rsiM5", "rsiM15", "rsiH1", "whyNot"]
    print_rows(heads, [_row(line) for line in found.results], as_json=False)


def _row(line: ReportOrNot) -> list[Cell]:
    if line.report is None:
        return [line.token, *[None] * 6, None if line.error is None else line.error.code]
    price = line.report.price
    of = line.report.indicators
    return [line.token, price.usd, price.sol, of.m1.rsi, of.m5.rsi, of.m15.rsi, of.h1.rsi, None]
