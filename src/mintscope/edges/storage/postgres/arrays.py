"""Values as PostgreSQL has them; columns for `unnest` are packed as arrays, ten times faster.

To pack thousands of rows holds up other threads of this process, so it must take little.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader
from psycopg.types.string import StrDumperUnknown as StrDumper
from typing_extensions import override

HEAD: Final = Struct(">iiIii")  # dimensions, flags, type, length, first index
SIZE: Final = Struct(">i")
NULL: Final = SIZE.pack(-1)
INTEGER: Final = Struct(">iq")
FLOAT: Final = Struct(">id")
OF_8_BYTES: Final = 8


class IntegerColumn(list[int | None]):
    """A column of the type bigint."""


class FloatColumn(list[float | None]):
    """A column of the type double precision."""


class TextColumn(list[str | None]):
    """A column of the type text; NUL, which PostgreSQL refuses, is replaced."""


class BlobColumn(list[bytes | None]):
    """A column of the type bytea."""


class _Packing(Dumper):
    format = Format.BINARY
    element_oid: ClassVar[int]

    @override
    def dump(self, obj: Any) -> bytes:
        return HEAD.pack(1, 1, self.element_oid, len(obj), 1) + self.elements(obj)

    @staticmethod
    def elements(values: Sequence[Any]) -> bytes:
        """Return *values*, each behind its length."""
        raise NotImplementedError


class _IntegerPacking(_Packing):
    oid = 1016
    element_oid = 20

    @staticmethod
    @override
    def elements(values: Sequence[Any]) -> bytes:
        if None in values:
            return b"".join(NULL if v is None else INTEGER.pack(OF_8_BYTES, v) for v in values)
        return _fixed(values, ">i8")


class _FloatPacking(_Packing):
    oid = 1022
    element_oid = 701

    @staticmethod
    @override
    def elements(values: Sequence[Any]) -> bytes:
        if None in values:
            return b"".join(NULL if v is None else FLOAT.pack(OF_8_BYTES, v) for v in values)
        return _fixed(values, ">f8")


class _TextPacking(_Packing):
    oid = 1009
    element_oid = 25

    @staticmethod
    @override
    def elements(values: Sequence[Any]) -> bytes:
        return _blobs([None if value is None else _text(value) for value in values])


class _BlobPacking(_Packing):
    oid = 1001
    element_oid = 17

    @staticmethod
    @override
    def elements(values: Sequence[Any]) -> bytes:
        return _blobs(values)


class _IntegerLoader(Loader):
    """Reads sums of integers, which are numeric, as integers."""

    @override
    def load(self, data: Any) -> int:
        return int(bytes(data))


class _BinaryIntegerLoader(NumericBinaryLoader):
    """Reads them in the form that is quicker to read."""

    @override
    def load(self, data: Any) -> Any:
        return int(super().load(data))


class _TextDumper(StrDumper):
    """Sends texts as they are, but for NUL, which the server refuses in any."""

    @override
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


PACKINGS: Final = (
    (IntegerColumn, _IntegerPacking),
    (FloatColumn, _FloatPacking),
    (TextColumn, _TextPacking),
    (BlobColumn, _BlobPacking),
)


COLUMNS: Final[dict[str, type[list[Any]]]] = {
    "bigint": IntegerColumn,
    "double precision": FloatColumn,
    "text": TextColumn,
    "bytea": BlobColumn,
}


def register(connection: Connection[Any]) -> None:
    """Let *connection* take and give values, and take columns."""
    connection.adapters.register_loader("numeric", _IntegerLoader)
    connection.adapters.register_loader("numeric", _BinaryIntegerLoader)
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.adapters.register_dumper(bool, Int8Dumper)
    for column, packing in PACKINGS:
        connection.adapters.register_dumper(column, packing)


def _text(value: str) -> bytes:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode()


def _fixed(values: Sequence[Any], kind: str) -> bytes:
    packed: NDArray[Any] = np.empty(len(values), [("size", ">i4"), ("value", kind)])
    packed["size"] = OF_8_BYTES
    packed["value"] = values
    return packed.tobytes()


def _blobs(values: Sequence[bytes | None]) -> bytes:
    return b"".join(
        part
        for value in values
        for part in ((NULL,) if value is None else (SIZE.pack(len(value)), value))
    )
