"""The commands decode, gaps and programs."""

import gzip
import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import typer

from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.history import CallsPerS, Giving, RatePools, Yes, days_ago
from mintscope.app.cli.output import EXIT_NOT_DONE, AsJson, print_rows, stop, visible
from mintscope.app.cli.stores import with_market
from mintscope.app.config.groups import Config
from mintscope.app.running import decode_worker
from mintscope.app.sources import is_read, of_the_second_node, open_backfill, settled
from mintscope.app.stores.stores import Market
from mintscope.dex.outcome import Decoded, Swap
from mintscope.dex.programs import BY_ADDRESS
from mintscope.history.backfill import GapMend
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import UNPARSABLE, Undecodable, decode_json
from mintscope.kit.primitives import MICRO_USD, Mint, Slot
from mintscope.market.quotes import oriented
from mintscope.solana.blocks import WSOL, Gap, SourceError

app = typer.Typer()

GZIP_BEGIN: Final = b"\x1f"
UNSAID: Final = msgspec.Raw(b"null")
DIGITS: Final = Context(prec=28)
# The ends of the names of files that are read in a folder; other files are skipped.
NAMES_IN_FOLDERS: Final = (".json", ".json.gz")
DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024  # uncompressed; a whole block takes about 7 MB

Number = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class Document(msgspec.Struct, rename="camel"):
    """A JSON file with a transaction or a block, possibly inside the answer of a JSON-RPC call."""

    slot: Number | None = None
    block_time: Number | None = None
    transaction: msgspec.Raw = UNSAID
    transactions: list[msgspec.Raw] | None = None
    result: msgspec.Raw = UNSAID


DOCUMENT: Final = msgspec.json.Decoder(Document)


class BadFile(Exception):
    """A file or folder is unreadable or lacks the expected content, or a document is too large."""


@app.command()
def decode(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files of JSON or JSON lines, or folders of them."),
    ],
) -> None:
    """Print one JSON line per swap; quarantined transactions go to stderr.

    Each file holds getTransaction or getBlock results (encoding "json"): one in the file or one per
    line, plain or compressed with gzip, bare or inside a JSON-RPC response. For a folder, all .json
    and .json.gz files in it and its subfolders are read, in the order of their paths.
    """
    for path in paths:
        _decode(path)
    sys.stdout.flush()


def _decode(path: Path) -> None:
    try:
        for file in files_of(path):
            # Errors then name the file, not the folder.
            path = file
            for swap, slot, time in swaps(path):
                sys.stdout.buffer.write(msgspec.json.encode(row(swap, slot, time)) + b"\n")
    except BadFile as bad:
        sys.stdout.flush()
        stop(f"{path}: {bad}")


def files_of(path: Path) -> list[Path]:
    """Return *path* in a list; if it is a folder, the sorted files of JSON at any depth in it.

    Raises BadFile if the folder cannot be read or has no files of JSON.
    """
    if not path.is_dir():
        return [path]

    def refuse(error: OSError) -> None:
        raise BadFile(f"expected a readable folder; {error}")

    found = [
        Path(folder, name)
        for folder, _, names in os.walk(path, onerror=refuse)
        for name in names
        if name.endswith(NAMES_IN_FOLDERS)
    ]
    if not found:
        raise BadFile(f"expected a folder of {' or '.join(NAMES_IN_FOLDERS)} files; has none")
    return sorted(found)


def swaps(path: Path) -> Iterator[tuple[Swap, int | None, int | None]]:
    """Yield each swap in the file *path*, its slot, and the time of its block in seconds.

    The slot or the time is None if the file does not have it.  Quarantined transactions are printed
    on stderr, as JSON lines.  Raises BadFile.
    """
    for text, where in documents(path):
        document, raw = unwrap(text, where)
        decoded = read(document, raw, where)
        for quarantined in decoded.quarantined:
            line = {
                "signature": quarantined.signature,
                "slot": document.slot,
                "transaction_index": quarantined.transaction_index,
                "program": quarantined.program,
                "reason": quarantined.reason,
            }
            sys.stderr.buffer.write(msgspec.json.encode(line) + b"\n")
        for swap in decoded.swaps:
            yield swap, document.slot, document.block_time


def documents(path: Path) -> Iterator[tuple[bytes, str]]:
    """Yield each document of *path*, and its position, such as "line 2".  Raises BadFile.

    If the first line is a whole JSON document, each line that is not blank is a document; otherwise
    the whole file is one document.  Documents after the first line are not parsed.
    """
    try:
        with opened(path) as file:
            first = _expect_bounded(file.readline(DOCUMENT_BYTES_MAX + 1))
            if not is_json(first):
                rest = file.read(DOCUMENT_BYTES_MAX + 1 - len(first))
                yield _expect_bounded(first + rest), "the file"
                return
            yield first, "line 1"
            lines = iter(partial(file.readline, DOCUMENT_BYTES_MAX + 1), b"")
            for number, line in enumerate(lines, 2):
                if _expect_bounded(line).strip():
                    yield line, f"line {number}"
    except (OSError, EOFError, zlib.error) as error:
        raise BadFile(f"expected a readable file, plain or gzip; {error}") from None


def _expect_bounded(text: bytes) -> bytes:
    if len(text) > DOCUMENT_BYTES_MAX:
        raise BadFile(f"expected documents of at most {DOCUMENT_BYTES_MAX} bytes; was more")
    return text


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Open *path*, which may be a pipe, once; gzip is recognized by the first byte, not the name.

    No JSON begins with this byte.
    """
    with path.open("rb") as file:
        if file.peek(1).startswith(GZIP_BEGIN):
            with gzip.open(file, "rb") as unpacked:
                yield unpacked
        else:
            yield file


def is_json(text: bytes) -> bool:
    """Return whether *text* is a whole JSON document."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except UNPARSABLE:
        return False
    return True


def unwrap(text: bytes | msgspec.Raw, where: str) -> tuple[Document, bytes | msgspec.Raw]:
    """Return the document in *text*, and its raw bytes, without an enclosing JSON-RPC response.

    Raises BadFile, whose message names *where*, the position of *text* in its file.
    """
    try:
        document = decode_json(text, DOCUMENT)
        if document.result != UNSAID:
            text = document.result
            document = decode_json(text, DOCUMENT)
    except Undecodable as error:
        raise BadFile(f"expected a getTransaction or getBlock result in {where}; {error}") from None
    return document, text


def read(document: Document, raw: bytes | msgspec.Raw, where: str) -> Decoded:
    """Return the decoded transactions of *document*.

    Raises BadFile if *document* is neither a transaction nor a block.
    """
    if document.transactions is not None:
        return decode_worker.decode_json_transactions(document.transactions)
    if document.transaction != UNSAID:
        return decode_worker.decode_json_transaction(raw)
    raise BadFile(
        f"expected a getTransaction or getBlock result in {where}, was JSON with neither"
        ' "transaction" nor "transactions"'
    )


def row(swap: Swap, slot: int | None, time: int | None) -> dict[str, Any]:
    """Return the fields to print for *swap*; amounts and prices are texts, not floats."""
    seen = oriented(swap)
    base = None if seen is None else whole(seen.base_amount, seen.base_decimals)
    quote = None if seen is None else whole(seen.quote_amount, seen.quote_decimals)
    return {
        "signature": swap.signature,
        "slot": slot,
        "time": time,
        "ix": [swap.outer, swap.inner],
        "program": swap.program,
        "pool": swap.pool,
        "in_mint": swap.in_mint,
        "in_amount": str(swap.in_amount),
        "out_mint": swap.out_mint,
        "out_amount": str(swap.out_amount),
        "in_decimals": swap.in_decimals,
        "out_decimals": swap.out_decimals,
        "base": None if seen is None else seen.base,
        "quote": None if seen is None else seen.quote,
        "quote_kind": None if seen is None else seen.quote_kind,
        "side": None if seen is None else "buy" if seen.is_buy else "sell",
        "base_volume": None if base is None else str(base),
        "quote_volume": None if quote is None else str(quote),
        "price": None if base is None or quote is None else ratio(quote, base),
    }


def whole(amount: int, decimals: int | None) -> Decimal | None:
    """Convert *amount* from raw units to whole tokens; return None if *decimals* is None."""
    if decimals is None:
        return None
    return DIGITS.divide(Decimal(amount), DIGITS.power(Decimal(10), decimals))


def ratio(quote: Decimal, base: Decimal) -> str:
    """Return *quote* per *base*, rounded to 28 digits, without trailing zeros."""
    price = DIGITS.divide(quote, base).normalize(DIGITS)
    # `normalize` turns 1000 into 1E+3, which the format f undoes.
    return f"{price:f}" if price == price.to_integral_value() else str(price)


GAPS_MAX: Final = 1_000  # maximum number of gaps that `gaps fill` reads or counts

gap_commands = typer.Typer(
    help="List and fill gaps: slots that no source could deliver.", no_args_is_help=True
)
app.add_typer(gap_commands, name="gaps")


@gap_commands.command("list")
def list_gaps(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="COUNT", help="Maximum number of gaps.")
    ] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the newest open gaps; candles lack the swaps of their slots."""
    found = with_market(config, lambda market: market.gap_mends.newest(limit))
    columns = ("first", "last", "slots", "reason", "attempts", "given_up", "words")
    print_rows(columns, [_row(each) for each in found], as_json=as_json)


@gap_commands.command()
def fill(
    *,
    rate_pool: RatePools = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Read the blocks of open gaps, and backfill again the tokens that traded in them.

    Blocks come from chain.second_rpc_url if it is set, else from chain.rpc_url. The cost of each
    backfill is shown, and must be confirmed. Works while the service runs; after an interruption,
    the same command resumes. Exits with 1 if a gap is left open.
    """
    settings = configured(config).config
    if settings.chain.source == "files":
        stop("gaps are filled from a node: chain.source is files")
    filling = Filling(
        config=of_the_second_node(settings),
        rate_pools=rate_pool or [],
        calls_per_s=calls_per_s,
        yes=yes,
    )
    try:
        is_done = with_market(config, filling.run)
    except SourceError as error:
        stop(visible(str(error)), EXIT_NOT_DONE)
    if not is_done:
        raise typer.Exit(EXIT_NOT_DONE)


@dataclass(frozen=True, kw_only=True)
class Filling:
    """One run of `gaps fill`, which reads the swaps of gaps again from the first node."""

    config: Config
    rate_pools: Sequence[str]
    calls_per_s: float
    yes: bool

    async def run(self, market: Market) -> bool:
        """Fill the newest GAPS_MAX gaps in the log if possible; return whether no gap is open."""
        gaps = await market.reader.gaps(GAPS_MAX)
        traded = {
            gap: found for gap in gaps if (found := await self._look(market, gap)) is not None
        }
        newest: defaultdict[Mint, Slot] = defaultdict(lambda: Slot(0))
        for gap, mints in traded.items():
            for mint in mints:
                # One backfill serves all gaps of a mint, if it includes the newest.
                newest[mint] = max(newest[mint], gap.last)
        read = {mint for mint, slot in newest.items() if await self._read(market, mint, slot)}
        for gap, mints in traded.items():
            if mints <= read:
                await market.history.filled(gap, SystemClock().now())
                typer.echo(f"{_named(gap)}: filled")
        left = len(await market.reader.gaps(GAPS_MAX))
        typer.echo(f"{left} gaps are left open" if left else "no gap is open")
        return left == 0

    async def _look(self, market: Market, gap: Gap) -> set[Mint] | None:
        """Return the tracked mints, except SOL, that traded in *gap*, and print their number.

        Return None, and print the reason, if *gap* is too new or the node cannot deliver it.
        """
        folded = (await market.reader.overview()).folded_slot
        first_settled = await settled(market.reader, gap.last)
        if folded is None or first_settled is None or folded < first_settled:
            typer.echo(f"{_named(gap)}: too new to be filled; try again in two minutes")
            return None
        try:
            async with open_backfill(self.config, market, self.calls_per_s) as reading:
                mints = await reading.traded(gap)
        except SourceError as error:
            typer.echo(f"{_named(gap)}: {visible(str(error))}")
            return None
        followed = {mint for mint in mints if await market.tracking.one(mint) is not None}
        rest = "; the volume of SOL still lacks this gap" if WSOL in followed else ""
        followed.discard(WSOL)
        typer.echo(f"{_named(gap)}: {len(followed)} tracked tokens traded{rest}")
        return followed

    async def _read(self, market: Market, mint: Mint, slot: Slot) -> bool:
        """Backfill *mint*, unless the log already has a backfill of it that includes *slot*.

        Return whether the log has such a backfill afterwards.
        """
        if await _is_read(market, mint, slot):
            return True
        giving = Giving(
            mint=mint,
            from_time=days_ago(0),
            rate_pools=self.rate_pools,
            calls_per_s=self.calls_per_s,
            yes=self.yes,
            again=True,
        )
        typer.echo(f"{mint}:")
        try:
            await giving.run(market, self.config)
        except (SourceError, ValueError) as error:
            typer.echo(visible(str(error)), err=True)
        return await _is_read(market, mint, slot)


async def _is_read(market: Market, mint: Mint, slot: Slot) -> bool:
    first_settled = await settled(market.reader, slot)
    return first_settled is not None and await is_read(market.history, mint, first_settled)


def _row(mend: GapMend) -> Sequence[str | int]:
    gap = mend.gap
    is_given_up = mend.given_up_at is not None
    slots = gap.last - gap.first + 1
    return gap.first, gap.last, slots, gap.reason, mend.attempts, is_given_up, mend.words


def _named(gap: Gap) -> str:
    return f"slots {gap.first} to {gap.last}"


@app.command()
def programs(
    *,
    unread: Annotated[
        bool,
        typer.Option(
            "--unread", help="Instructions of the chain's last day that could not be read."
        ),
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            metavar="COUNT",
            help="With --unread: maximum number of kinds of instructions.",
        ),
    ] = 100,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the programs whose swaps are read, including those that the configuration adds.

    With --unread, list calls that should have been swaps but could not be read, and unlisted
    programs; those with the most value are first. The swaps of an `unknown_program` are read from
    their transfers.
    """
    if unread:
        found = with_market(config, lambda market: market.reader.not_read(limit))
        unread_rows = [
            (one.program, one.reason, one.head, one.count, one.volume // MICRO_USD, one.signature)
            for one in found
        ]
        columns = ("program", "reason", "discriminator", "count", "aboutUsd", "example")
        print_rows(columns, unread_rows, as_json=as_json)
        return
    rows = [
        (
            program.name,
            program.address,
            "the programs it calls" if program.read is None else program.how,
            "mintscope" if program.address in BY_ADDRESS else "configuration",
        )
        for program in decode_worker.programs_read(configured(config).config.dex)
    ]
    print_rows(("program", "id", "amountsFrom", "addedBy"), rows, as_json=as_json)
