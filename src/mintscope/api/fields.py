"""Reading a JSON body field by field, so that a client hears of every mistake at once."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from mintscope.accounts.address import Email, UnusableEmail, parse_email
from mintscope.accounts.application import (
    HANDLE_LENGTH_MAX,
    MOTIVATION_LENGTH_MAX,
    Form,
    UserType,
)
from mintscope.api.call import Call
from mintscope.api.failing import GENERAL
from mintscope.errors import FieldMessage, InvalidFields

DEPTH_MAX: Final = 8
MISSING: Final = "expected a value; it is missing"


class Fields:
    """The fields of one body, and what is wrong with them so far."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._messages: list[FieldMessage] = []

    def refuse(self, name: str, message: str) -> None:
        """Note that the field *name* cannot be taken."""
        self._messages.append(FieldMessage(name, message))

    def expect_sound(self) -> None:
        """Raise InvalidFields if any field was refused."""
        if self._messages:
            raise InvalidFields(self._messages)

    def text(self, name: str) -> str:
        """Return the text of a required field; "" once it is refused."""
        return self._read(name, is_required=True) or ""

    def email(self, name: str) -> Email:
        """Return the normalised address of a required field."""
        text = self._read(name, is_required=True)
        try:
            return parse_email(text or "")
        except UnusableEmail as flaw:
            if text is not None:
                self.refuse(name, str(flaw))
            return Email("")

    def handle(self, name: str) -> str | None:
        """Return an optional line, trimmed; None for one that is missing, null or blank."""
        text = (self._read(name, is_required=False) or "").strip()
        if len(text) > HANDLE_LENGTH_MAX:
            self.refuse(name, f"expected at most {HANDLE_LENGTH_MAX} characters; were {len(text)}")
        elif not text.isprintable():
            self.refuse(name, "expected one line of text; it holds control characters")
        return text or None

    def motivation(self, name: str) -> str:
        """Return a required text of several lines, trimmed."""
        given = self._read(name, is_required=True)
        text = (given or "").strip()
        if len(text) > MOTIVATION_LENGTH_MAX:
            wanted = f"expected at most {MOTIVATION_LENGTH_MAX} characters"
            self.refuse(name, f"{wanted}; were {len(text)}")
        elif given is not None and not text:
            self.refuse(name, "expected why access is wanted and what for; it is empty")
        elif any(sign < " " and sign not in "\t\r\n" for sign in text):
            self.refuse(name, "expected text; it holds control characters")
        return text

    def user_type(self, name: str) -> UserType:
        """Return what the applicant wants to be."""
        text = self._read(name, is_required=True)
        try:
            return UserType(text or "")
        except ValueError:
            if text is not None:
                known = ", ".join(UserType)
                self.refuse(name, f"expected one of {known}; was {text[:50]!r}")
            return UserType.BOTH

    def _read(self, name: str, *, is_required: bool) -> str | None:
        """Return a text as it was sent; None for one that is missing or refused."""
        value = self._values.get(name)
        if isinstance(value, str):
            return value
        if value is not None:
            self.refuse(name, f"expected a string; was {_kind(value)}")
        elif is_required:
            self.refuse(name, MISSING)
        return None


def read_form(fields: Fields) -> Form:
    """Return the form of a signup.

    Raises    InvalidFields, which names every field that is wrong
    """
    form = Form(
        email=fields.email("email"),
        telegram=fields.handle("telegram"),
        twitter=fields.handle("twitter"),
        user_type=fields.user_type("userType"),
        motivation=fields.motivation("motivation"),
    )
    fields.expect_sound()
    return form


async def read_fields(call: Call) -> Fields:
    """Return the fields of the body of *call*.

    Raises    InvalidFields for anything but one JSON object, sent as such, that says each thing
              once and is at most eight deep; PayloadTooLarge
    """
    body = await call.body()
    kind = ", ".join(call.values(b"content-type"))
    if kind.partition(";")[0].strip().lower() != "application/json":
        _refuse(f"expected Content-Type: application/json; was {kind[:50]!r}")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        _refuse("expected a JSON object; the body is not JSON")
    except RecursionError:
        _refuse(f"expected JSON at most {DEPTH_MAX} deep")
    if _is_deeper(value, DEPTH_MAX):
        _refuse(f"expected JSON at most {DEPTH_MAX} deep")
    if not isinstance(value, dict):
        _refuse(f"expected a JSON object; was {_kind(value)}")
    json.loads(body, object_pairs_hook=_expect_each_once)
    return Fields(value)


def _expect_each_once(pairs: Sequence[tuple[str, Any]]) -> None:
    """Refuse an object that says one thing twice: parsers differ in which one they believe."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        _refuse("expected each field once; one is there twice")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS[type(value)]


def _refuse(message: str) -> NoReturn:
    raise InvalidFields([FieldMessage(GENERAL, message)])
