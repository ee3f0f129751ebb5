"""`mintscope get`: prints the report of a token."""

import msgspec
import typer

from mintscope_client.calls.call import Answered
from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.connection import (
    CredentialFile,
    MaxCredits,
    Mint,
    Patience,
    Url,
    connected,
)
from mintscope_client.cli.tables import AsJson, Cell, print_json, print_rows, visible
from mintscope_client.endpoints import reports
from mintscope_client.endpoints.reports import Report

app = typer.Typer()


@app.command()
def get(
    mint: Mint,
    url: Url,
    credential_file: CredentialFile = None,
    max_credits: MaxCredits = None,
    patience_s: Patience = PATIENCE_S,
    *,
    as_json: AsJson = False,
) -> None:
    """Read price, indicators and pressure of a token from a service: one credit."""
    with connected(url, credential_file, max_credits, patience_s) as client:
        answered = client.send(reports.token(mint))
    if as_json:
        print_json(msgspec.to_builtins(answered.data))
    else:
        _show(answered)


def _show(answered: Answered[Report]) -> None:
    report = answered.data
    indicators = report.indicators
    print(f"{visible(report.token)}\n{report.price.usd:.6g} USD, {report.price.sol:.6g} SOL\n")
    rows: list[list[Cell]] = []
    for name in ("m1", "m5", "m15", "h1"):
        of = getattr(indicators, name)
        macd = None if of.macd is None else of.macd.histogram
        pressure = getattr(indicators.buy_sell_pressure, name)
        rows.append([name, of.rsi, of.ema9, of.ema21, of.ema50, of.ema200, macd, pressure])
    heads = ["timeframe", "rsi", "ema9", "ema21", "ema50", "ema200", "macdHistogram", "pressure"]
    print_rows(heads, rows, as_json=False)
    if answered.credits_left is not None:
        typer.echo(f"{answered.credits_left} credits left", err=True)
