"""`mintscope watch`: prints reports when they change."""

import json
from typing import Annotated

import msgspec
import typer

from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.connection import CredentialFile, MaxCredits, Patience, Url, connected
from mintscope_client.cli.tables import AsJson, visible
from mintscope_client.streams.live import LiveReport

app = typer.Typer()


@app.command()
def watch(
    mints: Annotated[list[str], typer.Argument(metavar="MINT...", help="The mints.")],
    url: Url,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", metavar="N", min=1, help="End after so many lines.", show_default=False
        ),
    ] = None,
    credential_file: CredentialFile = None,
    max_credits: MaxCredits = None,
    patience_s: Patience = PATIENCE_S,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the price and RSI of tokens when they change; each minute costs a credit per token.

    With --json, print a line of JSON for each change, with the slot and the whole report.
    """
    with connected(url, credential_file, max_credits, patience_s) as client:
        for number, live in enumerate(client.stream(mints), 1):
            print(_json(live) if as_json else _line(live), flush=True)
            if number == count:
                return


def _json(live: LiveReport) -> str:
    """Return *live* as a line of ASCII JSON: no text in it can send commands to the terminal."""
    return json.dumps({"slot": live.slot, "report": msgspec.to_builtins(live.report)})


def _line(live: LiveReport) -> str:
    report = live.report
    of = live.report.indicators
    rsi = ["-" if found is None else f"{found:.1f}" for found in (of.m1.rsi, of.m5.rsi)]
    return (
        f"{live.slot}  {visible(report.token)}  {report.price.usd:.6g} USD"
        f"  rsi m1 {rsi[0]}, m5 {rsi[1]}"
    )
