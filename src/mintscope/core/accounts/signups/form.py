"""The form of an application as it comes in: read field by field, every mistake named at once."""

import unicodedata
from collections.abc import Mapping
from typing import Final

from mintscope.base.errors import FieldMessage, InvalidFields
from mintscope.core.accounts.application import (
    HANDLE_LENGTH_MAX,
    MOTIVATION_LENGTH_MAX,
    Form,
    UserType,
)
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.keys.scope import Scope, UnknownScope, parse_scopes

MISSING: Final = "expected a value; it is missing"
SHOWN_MAX: Final = 50
KINDS: Final[Mapping[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def parse_form(fields: Mapping[str, object]) -> Form:
    """Return the form of *fields*, named as specified.  Raises InvalidFields with every mistake."""
    reader = FieldReader(fields)
    form = Form(
        email=reader.email("email"),
        telegram=reader.handle("telegram"),
        twitter=reader.handle("twitter"),
        user_type=reader.user_type("userType"),
        motivation=reader.motivation("motivation"),
        asked_scopes=reader.scopes("scopes"),
    )
    reader.expect_sound()
    return form


class FieldReader:
    """Reads fields; what it returns is good only once `expect_sound` has passed."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._messages: list[FieldMessage] = []

    def expect_sound(self) -> None:
        """Raise InvalidFields if any field was refused."""
        if self._messages:
            raise InvalidFields(self._messages)

    def text(self, name: str) -> str:
        """Read a required text, whatever it says."""
        return self._required(name) or ""

    def email(self, name: str) -> EmailAddress:
        """Read a required address."""
        text = self._required(name)
        try:
            return EmailAddress("") if text is None else parse_email(text)
        except UnusableEmailAddress as flaw:
            self._refuse(name, str(flaw))
            return EmailAddress("")

    def handle(self, name: str) -> str | None:
        """Read an optional line, trimmed; None for one that is blank."""
        text = (self._text(name) or "").strip()
        if len(text) > HANDLE_LENGTH_MAX:
            self._refuse(
                name, f"expected at most {HANDLE_LENGTH_MAX} characters; there were {len(text)}"
            )
        elif not text.isprintable():
            self._refuse(name, "expected one line of text; it holds control characters")
        return text or None

    def user_type(self, name: str) -> UserType:
        """Read what the applicant wants to be."""
        text = self._required(name)
        if text in set(UserType):
            return UserType(text)
        if text is not None:
            known = ", ".join(UserType)
            self._refuse(name, f"expected one of {known}; was {text[:SHOWN_MAX]!r}")
        return UserType.BOTH

    def motivation(self, name: str) -> str:
        """Read a required text of several lines, trimmed."""
        given = self._required(name)
        text = (given or "").replace("\r\n", "\n").replace("\r", "\n").strip()
        if given is not None and not text:
            self._refuse(name, "expected why access is wanted and what for; it is empty")
        elif len(text) > MOTIVATION_LENGTH_MAX:
            wanted = f"expected at most {MOTIVATION_LENGTH_MAX} characters"
            self._refuse(name, f"{wanted}; there were {len(text)}")
        elif any(_is_control(sign) for sign in text):
            self._refuse(name, "expected text; it holds control characters")
        return text

    def scopes(self, name: str) -> frozenset[Scope]:
        """Read an optional list of scopes."""
        value = self._fields.get(name)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._refuse(name, f"expected a list of scopes among {', '.join(Scope)}")
            return frozenset()
        try:
            return parse_scopes(each[:SHOWN_MAX] for each in value)
        except UnknownScope as flaw:
            self._refuse(name, str(flaw))
            return frozenset()

    def _required(self, name: str) -> str | None:
        """Return the text of a field, None once it is refused."""
        if self._fields.get(name) is None:
            self._refuse(name, MISSING)
        return self._text(name)

    def _text(self, name: str) -> str | None:
        """Return the text of a field; None for one that is missing, null or refused."""
        value = self._fields.get(name)
        if isinstance(value, str):
            return value
        if value is not None:
            kind = KINDS.get(type(value), "something else")
            self._refuse(name, f"expected a string; was {kind}")
        return None

    def _refuse(self, name: str, message: str) -> None:
        self._messages.append(FieldMessage(name, message))


def _is_control(sign: str) -> bool:
    """Say whether *sign* may not stand in a text of several lines; a lone surrogate may not."""
    return sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs"}
