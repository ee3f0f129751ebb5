"""`mintscope tokens` and `mintscope export`."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from mintscope.app.cli import output
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.history import DAYS_MAX, CallsPerS, Giving, Yes, backfill_token, days_ago
from mintscope.app.cli.stores import with_market
from mintscope.app.sources import ask_facts
from mintscope.app.stores.stores import Market
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.kernels import COUNTS
from mintscope.market.log import LoadedMint
from mintscope.market.mint_facts import MintFacts, NotAMint
from mintscope.market.ports import TrackedMint, ready_from
from mintscope.market.report import CandleCounts, TokenReport, report_of
from mintscope.market.series import tables
from mintscope.market.series.series import WIDTHS, Range, page_of, series_of, widened
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import WSOL, SourceError

PART: Final = 1_000
NO_CANDLES: Final = CandleCounts(0, 0, 0, 0)

app = typer.Typer()
token_commands = typer.Typer(help="Track and untrack mints, and show one.", no_args_is_help=True)
app.add_typer(token_commands, name="tokens")

NOT_TRACKED: Final = "was not tracked; it is not tracked automatically until `tokens add` names it"
Mints = Annotated[list[str], typer.Argument(help="Mint addresses.", metavar="MINT...")]


@token_commands.command()
def add(
    mints: Mints,
    *,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS",
            help="Also backfill the tokens, as `history` does, for a span such as 10d.",
        ),
    ] = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Track MINT..., beginning with the next block.

    If a node answers, an address that is not a mint is refused. Works while the service runs.
    """
    days = None if history is None else _days(history)
    parsed = [output.read_mint(mint) for mint in mints]
    facts = _facts(parsed, config)

    async def work(market: Market) -> list[tuple[Mint, bool]]:
        added = [(mint, await market.tracking.add(mint)) for mint in parsed]
        for mint, found in facts.items():
            await market.facts.save(mint, found)
        return added

    for mint, is_new in with_market(config, work, creates=True):
        typer.echo(f"{mint}  {'tracked from now on' if is_new else 'was tracked already'}")
    for mint in parsed if days is not None else ():
        begin = days_ago(days or 0)
        backfill_token(Giving(mint=mint, from_time=begin, calls_per_s=calls_per_s, yes=yes), config)


@token_commands.command()
def remove(mints: Mints, config: ConfigFile = None) -> None:
    """Stop tracking MINT..., and delete its candles.

    With market.track = "all" the floor does not choose MINT again, however much it trades,
    until `tokens add` names it. SOL is refused, because every price depends on it. Works while the
    service runs.
    """
    parsed = [output.read_mint(mint) for mint in mints]
    if WSOL in parsed:
        output.stop(f"expected a token other than SOL, which is always tracked; was {WSOL}")

    async def work(market: Market) -> list[tuple[Mint, bool]]:
        return [(mint, await market.tracking.remove(mint)) for mint in parsed]

    for mint, was_tracked in with_market(config, work):
        typer.echo(f"{mint}  {'dropped' if was_tracked else NOT_TRACKED}")


@token_commands.command("list")
def list_mints(
    *,
    after: Annotated[str, typer.Option(metavar="MINT", help="Begin after this address.")] = "",
    limit: output.Limit = output.LINES,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List tracked mints by address, and when each timeframe has all indicators.

    The time is the earliest possible: each bucket without a swap delays it by one bucket.
    """
    rows = with_market(config, lambda market: _lines(market, after, limit + 1))
    columns = ("mint", "by", "since", "lastSwap", *(f"{each}Ready" for each in Timeframe))
    output.print_page(columns, rows, "--after", limit, as_json=as_json)


@token_commands.command()
def show(
    mint: Annotated[str, typer.Argument(help="A mint address.", metavar="MINT")],
    config: ConfigFile = None,
) -> None:
    """Print the last price, candle counts, last swap and facts of MINT as JSON."""
    parsed = output.read_mint(mint)
    shown = with_market(config, lambda market: _show(market, parsed))
    if shown is None:
        output.stop(f"{parsed} is not tracked: mintscope tokens add {parsed}")
    output.print_json(msgspec.to_builtins(shown))


def _days(text: str) -> float:
    number = text.removesuffix("d")
    if not number.isascii() or not number.isdigit() or not 0 < int(number) <= DAYS_MAX:
        raise typer.BadParameter(
            f"expected 1d to {DAYS_MAX}d; was {text!r}", param_hint="--history"
        )
    return int(number)


def _facts(mints: list[Mint], config: ConfigFile) -> dict[Mint, MintFacts]:
    """Return the facts of *mints* from the node; end the command if one of them is not a mint.

    If the facts cannot be read, print the reason on stderr and return no facts; ingest reads them
    later.  If the chain is read from files, also return no facts.
    """
    chain = configured(config).config.chain
    if chain.source == "files":
        return {}
    try:
        read = asyncio.run(ask_facts(chain, mints))
    except SourceError as error:
        reason = output.visible(str(error))
        typer.echo(f"the mints were not checked; ingest checks them later: {reason}", err=True)
        return {}
    facts = {}
    for mint, found in read.items():
        if isinstance(found, NotAMint):
            output.stop(str(found))
        facts[mint] = found
    return facts


async def _show(market: Market, mint: Mint) -> dict[str, object] | None:
    """Return the state of *mint* as `tokens show` prints it; None if it is not tracked.

    Times are in Unix seconds, except `readAtMs`.
    """
    tracked = await market.tracking.one(mint)
    loaded, tip = await market.reader.load(mint), await market.reader.tip()
    job = await market.history.one(mint)
    if tracked is None or loaded is None:
        return None
    report = _report(loaded, tip.time or UnixS(0))
    return {
        "mint": mint,
        "trackedSince": tracked.since_time,  # None: before the first slot
        "listed": tracked.is_listed,  # by an operator: it stays tracked, whatever its volume
        "price": None if report is None else report.price,
        "candleCounts": NO_CANDLES if report is None else report.data_span.candle_counts,
        "lastSwap": loaded.tail[-1].time if loaded.tail else tracked.last_swap,
        "imported": await market.imports.counts(mint),  # before the first own candle
        "historyMissing": 0 if job is None else job.missing,  # transactions that the node lacks
        "facts": await market.facts.one(mint),
    }


async def _lines(market: Market, after: str, count: int) -> list[tuple[output.Cell, ...]]:
    tip = await market.reader.tip()
    rows: list[tuple[output.Cell, ...]] = []
    async for one in _tracked(market, after):
        if len(rows) == count:
            break
        chosen_by = "operator" if one.is_listed else "floor"
        times = (output.moment_of(one.since_time), output.moment_of(one.last_swap))
        rows.append((one.mint, chosen_by, *times, *_readiness(one, tip.time)))
    return rows


def _readiness(tracked: TrackedMint, now: UnixS | None) -> list[str | None]:
    """Return, for each timeframe, the earliest time at which it has all indicators.

    "now" stands for times that have passed; None for all, if *now* is None.
    """
    if now is None:
        return [None] * len(Timeframe)
    moments = ready_from(tracked.state, now).values()
    return ["now" if at is None else output.moment_of(at) for at in moments]


def _report(loaded: LoadedMint, now: UnixS) -> TokenReport | None:
    """Return the report on *loaded*; None if the mint has no candle.

    The mint may have less data than the API requires.
    """
    engine = Engine(1)
    engine.load(0, loaded)
    values = engine.snapshot(0, now)
    if values[COUNTS] == 0:
        return None
    basis = basis_of(loaded.standings[-1][1] if loaded.standings else None)
    return report_of(loaded.mint, values, now, basis=basis)


ROWS_A_FILE: Final = 1_000_000


@app.command("export")
def export_day(
    day: Annotated[
        datetime, typer.Argument(help="The day, UTC.", metavar="DAY", formats=["%Y-%m-%d"])
    ],
    *,
    to: Annotated[Path, typer.Option(help="Folder for the files.", metavar="FOLDER")],
    tf: Annotated[
        str,
        typer.Option(help="Width of the candles: m1, m5, m15, m30, h1, h4 or d1.", metavar="TF"),
    ] = "m1",
    form: Annotated[
        tables.TableFormat,
        typer.Option(
            "--format", metavar="FORMAT", help="Format of the files: parquet, arrow or csv."
        ),
    ] = tables.TableFormat.PARQUET,
    config: ConfigFile = None,
) -> None:
    """Write the candles of every tracked mint on DAY to files of about a million rows.

    A row has the mint, and then the columns of `candles?format=csv`. The files replace those of an
    earlier export of DAY with the same TF and FORMAT in FOLDER. Works while the service runs.
    Parquet and Arrow need the extra `tables`.
    """
    if tf not in WIDTHS:
        output.stop(f"--tf: expected one of {', '.join(WIDTHS)}; was {tf}")
    begin = int(day.replace(tzinfo=UTC).timestamp())
    within = Range(
        width=WIDTHS[tf],
        since=UnixS(begin),
        until=UnixS(begin + DAY_S - 1),
        limit=DAY_S // WIDTHS[tf].seconds,
    )
    name = f"candles-{day:%Y-%m-%d}-{tf}"

    async def work(market: Market) -> int:
        to.mkdir(parents=True, exist_ok=True)
        count = 0
        files: set[Path] = set()
        async for number, table in _tables(market, within):
            file = to / f"{name}-{number:04}.{form}"
            file.write_bytes(tables.written(table, form))
            files.add(file)
            count += len(table["t"])
        _remove_others(to, re.compile(rf"{name}-\d{{4,}}\.{form}"), files)
        return count

    try:
        count = with_market(config, work)
    except (tables.NoTableLibrary, OSError) as error:
        output.stop(str(error), output.EXIT_NOT_DONE)
    typer.echo(f"{count} candles of {day:%Y-%m-%d} written to {to}")


def _remove_others(folder: Path, pattern: re.Pattern[str], files: set[Path]) -> None:
    """Remove the files in *folder* whose whole names match *pattern*, except *files*."""
    for found in {*folder.iterdir()} - files:
        if pattern.fullmatch(found.name):
            found.unlink()


async def _tables(market: Market, within: Range) -> AsyncIterator[tuple[int, tables.Table]]:
    """Yield the candles *within* a range for each file of an export, with the file's number.

    Files are numbered from 1.  Candles are sorted by mint, and no mint is in two files.
    """
    number = 1
    rows = 0
    parts: list[tables.Table] = []
    async for tracked in _tracked(market):
        table = await _candles_of(market, tracked.mint, within)
        rows += len(table["t"])
        if table["t"]:
            parts.append(table)
        if rows >= ROWS_A_FILE:
            yield number, tables.joined(parts)
            number += 1
            rows = 0
            parts = []
    if parts:
        yield number, tables.joined(parts)


async def _tracked(market: Market, after: str = "") -> AsyncIterator[TrackedMint]:
    """Yield the tracked mints whose addresses are after *after*, in order; "": all of them.

    PART mints at a time are loaded.
    """
    while page := await market.tracking.page(after, PART):
        for each in page:
            yield each
        after = page[-1].mint


async def _candles_of(market: Market, mint: Mint, within: Range) -> tables.Table:
    kept = await market.series.candles(mint, within.asked)
    if kept is None:  # the mint is no longer tracked
        return {"token": [], **tables.table_of((), UnixS(0))}
    now = kept.tip.time or UnixS(0)
    candles = page_of(widened(series_of(kept, within.asked), within.width), within, now).candles
    table = tables.table_of(candles, UnixS(now - within.width.seconds))
    return {"token": [mint] * len(candles), **table}
