"""`mintscope decode PATH...`: the swaps in files of transactions and blocks."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from decimal import Context, Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import typer

from mintscope.base.foreign import UNPARSABLE, Undecodable, decode_json
from mintscope.core.dex.outcome import Decoded
from mintscope.core.market.quotes import oriented
from mintscope.core.market.swap import Swap
from mintscope.shell.cli.output import stop
from mintscope.shell.wiring.decoding import decode_json_transaction, decode_json_transactions

app = typer.Typer()

GZIP_MAGIC: Final = b"\x1f\x8b"
UNSAID: Final = msgspec.Raw(b"null")
DIGITS: Final = Context(prec=28)
# Of a folder, files with other names are left out: lists and notes lie beside recordings.
NAMES_IN_FOLDERS: Final = (".json", ".json.gz")
DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024  # unpacked; a whole block takes some 7 MB

Number = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class Document(msgspec.Struct, rename="camel"):
    """A getTransaction result, a getBlock result, or a JSON-RPC answer with one of them."""

    slot: Number | None = None
    block_time: Number | None = None
    transaction: msgspec.Raw = UNSAID
    transactions: list[msgspec.Raw] | None = None
    result: msgspec.Raw = UNSAID


DOCUMENT: Final = msgspec.json.Decoder(Document)


class BadFile(Exception):
    """The file is not what it should be; the message says what was expected."""


@app.command()
def decode(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files of JSON or JSON lines, or folders of them."),
    ],
) -> None:
    """Print one JSON line per swap; quarantined transactions go to stderr.

    Each file holds getTransaction or getBlock results (encoding "json"), one in all or one a line,
    plain or gzip, bare or inside a JSON-RPC answer. A folder stands for all .json and .json.gz
    files in it and in its folders, in the order of their names.
    """
    for path in paths:
        _decode(path)
    sys.stdout.flush()


def _decode(path: Path) -> None:
    """Print the swaps of *path*, a file or a folder."""
    try:
        for file in files_of(path):
            path = file
            for swap, slot, time in swaps(path):
                sys.stdout.buffer.write(msgspec.json.encode(row(swap, slot, time)) + b"\n")
    except BadFile as bad:
        sys.stdout.flush()
        stop(f"{path}: {bad}")


def files_of(path: Path) -> list[Path]:
    """Return *path*, or the files of transactions and blocks if it is a folder, sorted.

    Raises BadFile if a folder cannot be read or has none.
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
    """Yield the swaps of *path* with slot and time; report what is quarantined.  Raises BadFile."""
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
    """Yield each JSON document of *path*, and where it stands.

    A file whose first line is a document has one a line; any other is one document.
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


def opened(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open *path*, unpacking gzip by its first bytes, whatever its name."""
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return gzip.open(path, "rb") if is_packed else path.open("rb")


def is_json(text: bytes) -> bool:
    """Return whether *text* is a whole JSON document."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except UNPARSABLE:
        return False
    return True


def unwrap(text: bytes | msgspec.Raw, where: str) -> tuple[Document, bytes | msgspec.Raw]:
    """Return *text* as a document with its own bytes, without the JSON-RPC answer around it."""
    try:
        document = decode_json(text, DOCUMENT)
        if document.result != UNSAID:
            text = document.result
            document = decode_json(text, DOCUMENT)
    except Undecodable as error:
        raise BadFile(f"expected a getTransaction or getBlock result in {where}; {error}") from None
    return document, text


def read(document: Document, raw: bytes | msgspec.Raw, where: str) -> Decoded:
    """Return what *document* decodes to."""
    if document.transactions is not None:
        return decode_json_transactions(document.transactions)
    if document.transaction != UNSAID:
        return decode_json_transaction(raw)
    raise BadFile(
        f"expected a getTransaction or getBlock result in {where}, was JSON with neither"
        ' "transaction" nor "transactions"'
    )


def row(swap: Swap, slot: int | None, time: int | None) -> dict[str, Any]:
    """Return *swap* as it is printed; amounts and prices are strings, so that none is rounded."""
    seen = oriented(swap)
    line: dict[str, Any] = {
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
    } | dict.fromkeys(
        ("base", "quote", "quote_kind", "side", "base_volume", "quote_volume", "price")
    )
    if seen is None:
        return line
    base = whole(seen.base_amount, seen.base_decimals)
    quote = whole(seen.quote_amount, seen.quote_decimals)
    return line | {
        "base": seen.base,
        "quote": seen.quote,
        "quote_kind": seen.quote_kind,
        "side": "buy" if seen.is_buy else "sell",
        "base_volume": None if base is None else str(base),
        "quote_volume": None if quote is None else str(quote),
        "price": None if base is None or quote is None else ratio(quote, base),
    }


def whole(amount: int, decimals: int | None) -> Decimal | None:
    """Return *amount* raw units in whole tokens, None where the decimals are unknown."""
    if decimals is None:
        return None
    return DIGITS.divide(Decimal(amount), DIGITS.power(Decimal(10), decimals))


def ratio(quote: Decimal, base: Decimal) -> str:
    """Return *quote* per *base*, without the zeros that rounding to 28 digits can end in."""
    price = DIGITS.divide(quote, base).normalize(DIGITS)
    return f"{price:f}" if price == price.to_integral_value() else str(price)
