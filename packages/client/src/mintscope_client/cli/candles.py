"""`mintscope candles`: prints the candles of a token."""

from typing import Annotated, Final

import msgspec
import typer

from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.connection import (
    TIMEFRAME,
    CredentialFile,
    MaxCredits,
    Mint,
    Patience,
    Url,
    connected,
)
from mintscope_client.cli.tables import AsJson, Cell, print_json, print_rows
from mintscope_client.endpoints import series
from mintscope_client.endpoints.series import CandleLine

COLUMNS: Final = ["t", "o", "h", "l", "c", "volume", "buyVolume", "sellVolume", "swaps", "imported"]

app = typer.Typer()


@app.command()
def candles(
    mint: Mint,
    url: Url,
    tf: Annotated[series.Timeframe, TIMEFRAME] = "m1",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Number of candles, the newest.")
    ] = 100,
    credential_file: CredentialFile = None,
    max_credits: MaxCredits = None,
    patience_s: Patience = PATIENCE_S,
    *,
    as_json: AsJson = False,
) -> None:
    """Read the newest candles of a token from a service: one credit."""
    with connected(url, credential_file, max_credits, patience_s) as client:
        page = client.candles(mint, tf, limit=limit).first()
    if as_json:
        print_json(msgspec.to_builtins(page))
    else:
        print_rows(COLUMNS, [_row(candle) for candle in page.candles], as_json=False)


def _row(candle: CandleLine) -> list[Cell]:
    said = msgspec.to_builtins(candle)
    said["imported"] = "yes" if candle.imported else None
    return [said[name] for name in COLUMNS]
