"""`mintscope history import`: candles of a file before a token's own ones."""

from pathlib import Path
from typing import Annotated, Final

import typer

from mintscope.base.errors import InvalidTokenAddress
from mintscope.base.primitives import MICRO_USD, UnixS, parse_mint
from mintscope.core.market.history.imports import CannotImport, ImportedCandle, expect_candle
from mintscope.core.market.pricing import PRICE_USD_MAX
from mintscope.core.market.timeframe import Timeframe
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.history.command import app, history_commands
from mintscope.shell.cli.output import refusing, stop, visible
from mintscope.shell.cli.stores import with_market
from mintscope.shell.cli.table import BadTable, rows

__all__ = ["app"]

COLUMNS: Final = ("t", "open", "high", "low", "close", "volume")
CANDLES_MAX: Final = 200_000
TIME_MAX: Final = 1 << 33
VOLUME_USD_MAX: Final = 1e9

CandleFile = Annotated[
    Path,
    typer.Argument(
        help="CSV with t,open,high,low,close,volume; USD, t the start of a candle.",
        metavar="FILE.csv",
    ),
]


@history_commands.command("import")
def import_candles(
    mint: Annotated[str, typer.Argument(help="A tracked mint address.", metavar="MINT")],
    file: CandleFile,
    *,
    timeframe: Annotated[
        Timeframe, typer.Option(metavar="TIMEFRAME", help="Width of a candle: m1, m5, m15 or h1.")
    ],
    config: ConfigFile = None,
) -> None:
    """Put candles of a file before the first own one of MINT.

    They never replace own ones, and are marked as imported. Works while the service runs: ingest
    takes them in once MINT has a candle of its own.
    """
    with refusing("MINT", InvalidTokenAddress):
        parsed = parse_mint(mint)
    try:
        candles = _read(file, timeframe)
        with_market(
            config, lambda market: market.imports.add(parsed, timeframe, file.name, candles)
        )
    except (BadTable, CannotImport) as error:
        stop(visible(str(error)))
    typer.echo(
        f"{len(candles)} candles of {timeframe} wait for ingest; mintscope tokens show {mint}"
    )


def _read(path: Path, timeframe: Timeframe) -> list[ImportedCandle]:
    """Return the candles of *path*.  Raises BadTable, CannotImport."""
    found: dict[int, ImportedCandle] = {}
    for row in rows(path, COLUMNS):
        at = row.integer("t", 0, TIME_MAX)
        open_, high, low, close = (row.number(name, PRICE_USD_MAX) for name in COLUMNS[1:5])
        volume = round(row.number("volume", VOLUME_USD_MAX) * MICRO_USD)
        candle = ImportedCandle(UnixS(at), open_, high, low, close, volume)
        expect_candle(candle, timeframe)
        if at in found:
            raise row.bad("t", "each candle once")
        found[at] = candle
        if len(found) > CANDLES_MAX:
            raise CannotImport(f"expected at most {CANDLES_MAX} candles")
    if not found:
        raise CannotImport(f"{path}: expected candles; there is none")
    return [found[at] for at in sorted(found)]
