"""Settings as people read them; secrets are masked."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr

from mintscope.shell.config.load import Setting

KINDS: Final[Mapping[object, str]] = {
    int: "integer",
    float: "number",
    Decimal: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    SecretStr: "text, secret",
    NoneType: "",
}


def shown(value: Any) -> str:
    """Return *value* as TOML writes it."""
    match value:
        case None:
            return "(unset)"
        case SecretStr():
            return _seen(value.get_secret_value())
        case Mapping():
            return "{" + ", ".join(f"{key} = {shown(each)}" for key, each in value.items()) + "}"
        case tuple():
            return "[" + ", ".join(map(shown, value)) + "]"
        case _:
            return json.dumps(value if isinstance(value, bool | int | float) else str(value))


def _seen(secret: str) -> str:
    """Return the host of an address, whose path or user name may be a key; nothing of the rest."""
    address = urlsplit(secret)
    if not address.scheme or not address.hostname:
        return '"(secret)"'
    port = f":{address.port}" if address.port else ""
    key = "/(secret)" if address.path.strip("/") or address.query or address.username else ""
    return json.dumps(f"{address.scheme}://{address.hostname}{port}{key}")


def allowed(setting: Setting) -> str:
    """Return what values *setting* takes."""
    bounds = setting.field.metadata
    low = next((f"at least {bound.ge}" for bound in bounds if isinstance(bound, Ge)), "")
    above = next((f"above {bound.gt}" for bound in bounds if isinstance(bound, Gt)), "")
    high = next((f"at most {bound.le}" for bound in bounds if isinstance(bound, Le)), "")
    return ", ".join(filter(None, [_kind(setting.field.annotation), low, above, high]))


def _kind(kind: Any) -> str:
    parts = get_args(kind)
    match get_origin(kind):
        case None:
            return KINDS[kind]
        case origin if origin is Literal:
            return " or ".join(f"`{part}`" for part in parts)
        case origin if origin in {Union, UnionType}:
            return " or ".join(filter(None, map(_kind, parts)))
        case origin if origin is tuple:
            return f"list of {_kind(parts[0])}"
        case origin if origin is dict:
            return "table of text, secret"
        case _:
            return _kind(parts[0])
