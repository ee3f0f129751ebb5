"""Builds parts of requests: paths, queries and bodies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from mintscope_client.calls.call import ApiCall

Data = TypeVar("Data")
Moment: TypeAlias = int | datetime


def call_of(  # noqa: PLR0913 - the parts of a call
    method: str,
    path: str,
    kind: type[Data],
    body: Mapping[str, Any] | None = None,
    *,
    query: tuple[tuple[str, str], ...] = (),
    takes_key: bool = False,
) -> ApiCall[Data]:
    """Return the request *method* *path*, which costs no credits.

    kind   the type of `data` in the response
    body   the fields of the JSON body; None: no body
    """
    return ApiCall(
        name=f"{method} {path}",
        method=method,
        path=path,
        kind=kind,
        query=query,
        body=b"" if body is None else msgspec.json.encode(body),
        takes_key=takes_key,
    )


def bare_call(
    path: str, kind: type[Data], body: Mapping[str, Any], *, takes_key: bool = False
) -> ApiCall[Data]:
    """Return the request POST /api/*path*, without a credential.

    kind   the type of the whole response, which has no `data` around it
    """
    return ApiCall(
        name=path,
        method="POST",
        path=f"/api/{path}",
        kind=kind,
        body=msgspec.json.encode(body),
        takes_key=takes_key,
        is_enveloped=False,
    )


def segment(text: str) -> str:
    """Return *text*, percent-encoded, as one segment of a path."""
    return quote(text, safe="")


def query_of(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return *fields* as query parameters; a field whose value is None is left out.

    `from_` becomes `from`, because that is a keyword of Python.
    """
    return tuple(
        (name.rstrip("_"), text_of(value)) for name, value in fields.items() if value is not None
    )


def text_of(value: object) -> str:
    """Return *value* as query text; a datetime becomes Unix seconds.

    Raises ValueError for a datetime without a time zone, because it is ambiguous.
    """
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError("expected a datetime with a time zone, as datetime.now(UTC); it has none")
    return str(int(value.timestamp()))


def page_of(limit: int, cursor: str | None) -> tuple[tuple[str, str], ...]:
    """Return the query parameters of a page of *limit* rows from *cursor*; None: the first page."""
    at = () if cursor is None else (("cursor", cursor),)
    return (("limit", str(limit)), *at)


def camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *fields* with their names, such as `window_s`, in the API's camelCase: `windowS`."""
    return {_camel_name(name): value for name, value in fields.items()}


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
