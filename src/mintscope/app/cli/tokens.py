"""`mintscope tokens`: choose which mints are tracked, and look at one."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
import typer

from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.history import DAYS_MAX, CallsPerS, Giving, Yes, backfill_token, days_ago
from mintscope.app.cli.output import (
    LINES,
    LINES_MAX,
    AsJson,
    Cell,
    moment,
    print_json,
    print_rows,
    refusing,
    stop,
    tell_more,
    visible,
)
from mintscope.app.cli.stores import with_market
from mintscope.app.sources import ask_facts
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import Imported
from mintscope.kit.errors import InvalidTokenAddress
from mintscope.kit.primitives import Mint, UnixMs, UnixS, parse_mint
from mintscope.kit.time import SECOND_MS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.kernels import COUNTS
from mintscope.market.log import LoadedMint, LogTip
from mintscope.market.mint_facts import MintFacts, NotAMint
from mintscope.market.ports import TrackedMint, ready_from
from mintscope.market.report import CandleCounts, Price, TokenReport, report_of
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import SourceError

PART: Final = 1_000
NO_CANDLES: Final = CandleCounts(0, 0, 0, 0)

app = typer.Typer()
token_commands = typer.Typer(
    help="Choose which mints are tracked, and look at one.", no_args_is_help=True
)
app.add_typer(token_commands, name="tokens")

NOT_TRACKED: Final = "was not tracked; the floor will not choose it until `tokens add` names it"
Mints = Annotated[list[str], typer.Argument(help="Mint addresses.", metavar="MINT...")]


class Shown(msgspec.Struct, rename="camel"):
    """The output of `tokens show`; times are Unix seconds.

    tracked_since   time of the slot after which swaps count, None from the very first
    listed          by an operator: no rule drops it
    price           None while no swap has set one
    last_swap       time of the newest swap that counted
    imported        candles of providers before the first own one, by timeframe
    history_missing transactions of its past that the node listed and never gave
    facts           what the mint is, with the slot it was read at; None before it was read
    """

    mint: Mint
    tracked_since: UnixS | None
    listed: bool
    price: Price | None
    candle_counts: CandleCounts
    last_swap: UnixS | None
    imported: Mapping[Timeframe, Imported]
    history_missing: int
    facts: MintFacts | None


@token_commands.command()
def add(
    mints: Mints,
    *,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS", help="Read the past too, as `history` does: 10d.", show_default=False
        ),
    ] = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Track MINT..., from the next block on.

    An address that is no mint is refused. Works while the service runs.
    """
    days = None if history is None else _days(history)
    parsed = [_parsed(mint) for mint in mints]
    facts = _facts(parsed, config)

    async def work(market: Market) -> list[tuple[Mint, bool]]:
        added = [(mint, await market.tracking.add(mint)) for mint in parsed]
        for mint, found in facts.items():
            await market.facts.save(mint, found)
        return added

    for mint, is_new in with_market(config, work):
        typer.echo(f"{mint}  {'tracked from now on' if is_new else 'was tracked already'}")
    for mint in parsed if days is not None else ():
        begin = days_ago(days or 0)
        backfill_token(Giving(mint=mint, from_time=begin, calls_per_s=calls_per_s, yes=yes), config)


@token_commands.command()
def remove(mints: Mints, config: ConfigFile = None) -> None:
    """Stop tracking MINT..., and delete its candles.

    With market.track = "all" the floor does not choose MINT again, however much it trades,
    until `tokens add` names it. Works while the service runs.
    """
    parsed = [_parsed(mint) for mint in mints]

    async def work(market: Market) -> list[tuple[Mint, bool]]:
        return [(mint, await market.tracking.remove(mint)) for mint in parsed]

    for mint, was_tracked in with_market(config, work):
        typer.echo(f"{mint}  {'dropped' if was_tracked else NOT_TRACKED}")


@token_commands.command("list")
def list_mints(
    *,
    after: Annotated[
        str,
        typer.Option(metavar="MINT", help="Begin after this address.", show_default=False),
    ] = "",
    limit: Annotated[
        int, typer.Option(metavar="COUNT", help="Lines at most.", min=1, max=LINES_MAX)
    ] = LINES,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the mints that are tracked, by address, and when each timeframe has all indicators.

    That is the earliest moment: each bucket without a swap moves it on.
    """
    rows = with_market(config, lambda market: _lines(market, after, limit + 1))
    columns = ("mint", "by", "since", "lastSwap", *(f"{each}Ready" for each in Timeframe))
    print_rows(columns, rows[:limit], as_json=as_json)
    tell_more("--after", [str(mint) for mint, *_ in rows], limit)


@token_commands.command()
def show(
    mint: Annotated[str, typer.Argument(help="A mint address.", metavar="MINT")],
    config: ConfigFile = None,
) -> None:
    """Print the last price, the candles, the last swap and the facts of MINT as JSON."""
    parsed = _parsed(mint)
    shown = with_market(config, lambda market: _show(market, parsed))
    if shown is None:
        stop(f"{parsed} is not tracked: mintscope tokens add {parsed}")
    print_json(msgspec.to_builtins(shown))


def _days(text: str) -> float:
    """Return the days that *text* says, 10d."""
    number = text.removesuffix("d")
    if not number.isascii() or not number.isdigit() or not 0 < int(number) <= DAYS_MAX:
        raise typer.BadParameter(
            f"expected 1d to {DAYS_MAX}d; was {text!r}", param_hint="--history"
        )
    return int(number)


def _facts(mints: list[Mint], config: ConfigFile) -> dict[Mint, MintFacts]:
    """Return the facts of *mints* by the node; stop if one is not a mint.

    A node that does not answer refuses nothing: ingest reads the facts later.
    """
    chain = configured(config).config.chain
    if chain.source == "files":
        return {}
    try:
        read = asyncio.run(ask_facts(chain, mints))
    except SourceError as error:
        typer.echo(f"not asked what it is: {visible(str(error))}", err=True)
        return {}
    facts = {}
    for mint, found in read.items():
        if isinstance(found, NotAMint):
            stop(str(found))
        facts[mint] = found
    return facts


async def _show(market: Market, mint: Mint) -> Shown | None:
    tracked = await market.tracking.one(mint)
    loaded, tip = await market.reader.load(mint), await market.reader.tip()
    past = await market.history_jobs.one(mint)
    if tracked is None or loaded is None:
        return None
    report = _report(loaded, tip.time or UnixS(0))
    return Shown(
        mint=mint,
        tracked_since=tracked.since_time,
        listed=tracked.is_listed,
        price=None if report is None else report.price,
        candle_counts=NO_CANDLES if report is None else report.data_span.candle_counts,
        last_swap=loaded.tail[-1].time if loaded.tail else tracked.last_swap,
        imported=await market.imports.counts(mint),
        history_missing=0 if past is None else past.missing,
        facts=await market.facts.one(mint),
    )


async def _lines(market: Market, after: str, count: int) -> list[tuple[Cell, ...]]:
    """Return up to *count* lines; the states of a part at a time are in memory."""
    tip: LogTip | None = None
    rows: list[tuple[Cell, ...]] = []
    while count > len(rows):
        wanted = min(PART, count - len(rows))
        part = await market.tracking.page(after, wanted)
        tip = tip or await market.reader.tip()  # tracking makes the file of a new installation
        rows += [
            (
                one.mint,
                "operator" if one.is_listed else "floor",
                _moment(one.since_time),
                _moment(one.last_swap),
                *_readiness(one, tip.time),
            )
            for one in part
        ]
        if len(part) < wanted:
            break
        after = part[-1].mint
    return rows


def _readiness(tracked: TrackedMint, now: UnixS | None) -> list[str | None]:
    """Return for each timeframe "now", or when it is ready at the earliest."""
    if now is None:
        return [None] * len(Timeframe)
    moments = ready_from(tracked.state, now).values()
    return ["now" if at is None else _moment(at) for at in moments]


def _report(loaded: LoadedMint, now: UnixS) -> TokenReport | None:
    """Return the report that would be served of *loaded*, however little there is."""
    engine = Engine(1)
    engine.load(0, loaded)
    values = engine.snapshot(0, now)
    if values[COUNTS] == 0:
        return None
    basis = basis_of(loaded.standings[-1][1] if loaded.standings else None)
    return report_of(loaded.mint, values, now, basis=basis)


def _parsed(mint: str) -> Mint:
    with refusing("MINT", InvalidTokenAddress):
        return parse_mint(mint)


def _moment(at: UnixS | None) -> str | None:
    return None if at is None else moment(UnixMs(at * SECOND_MS))
