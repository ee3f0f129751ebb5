"""Forms: what a browser sends as `application/x-www-form-urlencoded`, from a page of ours."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from mintscope.base.errors import BadRequest
from mintscope.core.accounts.people.session import Session
from mintscope.edges.server.request import Request, parse_id

FIELDS_MAX: Final = 50
MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


class InvalidForm(Exception):
    """Fields that hold what they must not: what is wrong with each, for people."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = errors


class FormData:
    """The fields of a form, in the order in which they were sent."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs

    def text(self, name: str) -> str:
        """Return the field *name*, "" if it was not sent.

        Raises    BadRequest for one that was sent twice: it would say two things
        """
        values = self.texts(name)
        if len(values) > 1:
            raise BadRequest(f"expected one field {name}; were {len(values)}")
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        """Return every value of the field *name*, as boxes that were ticked send them."""
        return [value for other, value in self._pairs if other == name]

    def line(self, name: str) -> str:
        """Return the field *name* without white space around it; raises as `text` does."""
        return self.text(name).strip()


async def read_form(request: Request) -> FormData:
    """Return the form that is the body of *request*.

    Raises    BadRequest, PayloadTooLarge, ClientDisconnected
    """
    content_type = request.value(b"content-type")
    if content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise BadRequest(f"expected a form, {MEDIA_TYPE}; was {content_type[:80]!r}")
    return parse_form(await request.body())


def parse_form(body: bytes) -> FormData:
    """Return the fields of *body*.

    Raises    BadRequest for what is no form of UTF-8 texts, or has too many fields
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise BadRequest(f"expected at most {FIELDS_MAX} fields, in UTF-8") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise BadRequest("expected texts without NUL characters")
    return FormData(pairs)


def parse_place(text: str) -> int | None:
    """Return where a list goes on; "" is its beginning.  Raises as `parse_id` does."""
    return parse_id(text) if text else None


def sentence(text: object) -> str:
    """Return *text* as a sentence: with a first capital and a full stop."""
    plain = str(text)
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "!", "?")) else ".")


class OriginRefused(Exception):
    """The request was not made by a page of ours; the message is shown."""


class OwnOrigins:
    """The origins at which people see the pages; the Host header is never one."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        assert self._origins

    @property
    def are_secure(self) -> bool:
        """Whether every one of them is https."""
        return all(origin.startswith("https://") for origin in self._origins)

    def expect(self, origins: list[str]) -> None:
        """Raise OriginRefused unless *origins*, the Origin headers, is one, and ours."""
        if len(origins) != 1 or origins[0] not in self._origins:
            shown = ", ".join(origins)[:120] or "nothing"
            known = " or ".join(sorted(self._origins))
            raise OriginRefused(
                f"Forms are accepted from {known} only; this one came from {shown}."
                " Open that address and try again."
            )


def expect_csrf(session: Session, form: FormData) -> None:
    """Raise OriginRefused unless *form* carries the text of *session*."""
    if not hmac.compare_digest(session.csrf.encode(), form.text("csrf").encode()):
        raise OriginRefused(
            "This form belongs to another session, or to none."
            " Go back, load the page again and send the form from there."
        )
