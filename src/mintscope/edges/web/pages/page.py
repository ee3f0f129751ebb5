"""What handlers return: a page to render, another page to go to, or a plain text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COOKIE: Final = "__Host-mintscope"
END_SESSION: Final = ""  # as a cookie: the browser forgets it
UNPROCESSABLE: Final = 422  # the form is understood, and holds what it must not
GONE: Final = 404


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its facts.

    errors  what is wrong with the form, by field; "" is about all of it
    values  what the form's fields hold, so that they need not be typed again; never a password
    cookie  that of a new session, or END_SESSION
    """

    template: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another page of this site; *notice* is a key of `notices.NOTICES`, shown there once."""

    path: str
    notice: str = ""
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class PlainText:
    """A plain text, for scripts."""

    text: str


@dataclass(frozen=True, slots=True)
class NoContent:
    """Nothing is new: the browser keeps what it shows."""


PageResponse = Page | Redirect | PlainText | NoContent


def link_gone(purpose: str) -> Page:
    """Return the page about a link that is unknown, used or too old; it does not say which."""
    return Page("link_gone.html", {"purpose": purpose}, status=GONE)
