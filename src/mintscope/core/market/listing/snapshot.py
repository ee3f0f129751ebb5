"""A snapshot of a list, in pieces of bytes that a starting process reads.

Loading all mints from the store costs a read of each; a snapshot holds the numbers as they are
in memory.  A list that is restored and brought to a later slot equals, to the last bit, a list
that was never stored.
"""

import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec
import numpy as np

from mintscope.core.market.engine.kernels import ACC
from mintscope.core.market.listing.columns import ROW, PartChunk
from mintscope.core.market.listing.spans import SPANS
from mintscope.core.market.listing.store import FactPlace, FoldedTo
from mintscope.core.market.listing.token_list import KeptRows, TokenList

VERSION: Final = 3
# The format: a snapshot of another one is not read, and the mints are loaded one by one.
FORM: Final = blake2b(repr((VERSION, ROW.descr, ACC, SPANS)).encode(), digest_size=8).hexdigest()
ROWS_A_PART: Final = 2_000  # some milliseconds of the interpreter
PIECE_BYTES: Final = 1 << 20  # before it is compressed
LEVEL: Final = 1  # of zlib: the fastest


class NotASnapshot(Exception):
    """The pieces are no whole list of this form."""


class Head(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    """The state of the list when it was stored.

    rows          their count, with those of mints that are gone
    gone          (part in which it went, row) of each mint that is gone
    tracked_seq   the last event of tracked and untracked mints that was read
    facts         the last facts of mints that were read
    """

    folded: FoldedTo
    rows: int
    gone: list[tuple[int, int]]
    tracked_seq: int
    facts: FactPlace


class Rows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """Some rows, from number *first* on."""

    first: int
    rows: KeptRows


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="chunk"):
    """The trades of a closed part: a `PartChunk` of D1, or of a minute."""

    of_day: bool
    number: int
    rows: bytes
    closes: bytes
    volumes: bytes
    swaps: bytes | None
    bought: bytes | None


Part: TypeAlias = Head | Rows | Chunk

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Part]).decode


def pieces(tokens: TokenList, tracked_seq: int, facts: FactPlace) -> Iterator[bytes]:
    """Yield the pieces of *tokens*, which must not change meanwhile."""
    waiting: list[msgspec.Raw] = []
    size = 0
    for part in _parts(tokens, tracked_seq, facts):
        encoded = _encode(part)
        waiting.append(msgspec.Raw(encoded))
        size += len(encoded)
        if size >= PIECE_BYTES:
            yield zlib.compress(_encode(waiting), LEVEL)
            waiting = []
            size = 0
    if waiting:
        yield zlib.compress(_encode(waiting), LEVEL)


def _parts(tokens: TokenList, tracked_seq: int, facts: FactPlace) -> Iterator[Part]:
    rows = tokens.row_count
    yield Head(tokens.folded, rows, tokens.gone_rows(), tracked_seq, facts)
    for first in range(0, rows, ROWS_A_PART):
        yield Rows(first, tokens.kept_rows(first, min(first + ROWS_A_PART, rows)))
    for of_day, number, chunk in tokens.closed_chunks():
        swaps = None if chunk.swaps is None else chunk.swaps.tobytes()
        bought = None if chunk.bought is None else chunk.bought.tobytes()
        numbers = chunk.rows.tobytes(), chunk.closes.tobytes(), chunk.volumes.tobytes()
        yield Chunk(of_day, number, *numbers, swaps, bought)


class Restoring:
    """Restores a list from its pieces, given in order.  All methods raise NotASnapshot."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._tokens: TokenList | None = None

    def add(self, piece: bytes) -> None:
        """Add the next piece; takes some milliseconds, in any thread."""
        try:
            for part in _decode(zlib.decompress(piece)):
                self._add(part)
        except (zlib.error, msgspec.MsgspecError, ValueError) as cause:
            raise NotASnapshot(f"expected a piece of a list; {cause}") from cause

    def whole(self) -> tuple[TokenList, Head]:
        """Return the list, and the place to go on from."""
        if self._head is None or self._tokens is None:
            raise NotASnapshot("expected the pieces of a list, were none")
        if self._tokens.row_count != self._head.rows:
            raise NotASnapshot(f"expected {self._head.rows} rows, were {self._tokens.row_count}")
        return self._tokens, self._head

    def _add(self, part: Part) -> None:
        if isinstance(part, Head):
            self._head = part
            self._tokens = TokenList(part.folded)
            self._tokens.expect_rows(part.rows, part.gone)
            return
        if self._tokens is None:
            raise NotASnapshot("expected the head of a list first")
        match part:
            case Rows(first, rows):
                self._tokens.restore_rows(first, rows)
            case Chunk():
                self._tokens.restore_chunk(part.number, _chunk(part), of_day=part.of_day)


def _chunk(kept: Chunk) -> PartChunk:
    return PartChunk(
        np.frombuffer(kept.rows, np.int32).copy(),
        np.frombuffer(kept.closes, np.float64).copy(),
        np.frombuffer(kept.volumes, np.int64).copy(),
        None if kept.swaps is None else np.frombuffer(kept.swaps, np.int32).copy(),
        None if kept.bought is None else np.frombuffer(kept.bought, np.int64).copy(),
    )
