"""`mintscope search`: lists the tokens that a service tracks."""

from typing import Annotated, Final, get_args

import msgspec
import typer

from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.connection import Patience, Url, connected
from mintscope_client.cli.tables import AsJson, Cell, print_json, print_rows
from mintscope_client.endpoints import lists
from mintscope_client.endpoints.lists import TokenLine

HEADS: Final = ["mint", "symbol", "usd", "changeH1", "changeD1", "volumeUsdD1", "marketCapUsd"]

app = typer.Typer()


@app.command()
def search(
    url: Url,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="Part of the name or symbol, or the beginning of the mint."
        ),
    ] = "",
    sort: Annotated[
        lists.Sort,
        typer.Option(metavar="FIELD", help=f"One of {', '.join(get_args(lists.Sort))}."),
    ] = "volume",
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Number of tokens.")] = 20,
    patience_s: Patience = PATIENCE_S,
    *,
    as_json: AsJson = False,
) -> None:
    """List the tokens that a service tracks: free."""
    # The list is free: without a credential and credits, nothing can be spent.
    with connected(url, None, 0, patience_s) as client:
        page = client.tokens(text, sort=sort, limit=limit).first()
    if as_json:
        print_json(msgspec.to_builtins(page))
    else:
        print_rows(HEADS, [_row(line) for line in page.tokens], as_json=False)


def _row(line: TokenLine) -> list[Cell]:
    price = line.price
    change = line.change
    usd = None if price is None else price.usd
    moved = [None if each is None else f"{each:+.2%}" for each in (change.h1, change.d1)]
    return [line.mint, line.symbol, usd, *moved, line.volume_usd_d1, line.market_cap_usd]
