"""E-mail addresses in the form in which they are compared, counted and stored."""

import unicodedata
from typing import Final, NewType

from mintscope.kit.errors import Undecodable, parsed_by_others

EmailAddress = NewType("EmailAddress", str)

EMAIL_LENGTH_MAX: Final = 254  # RFC 5321, 4.5.3.1.3, without the angle brackets


class UnusableEmailAddress(ValueError):
    """The text is not a usable e-mail address; the message is safe to show to the client."""


def parse_email(text: str) -> EmailAddress:
    """Return the e-mail address *text*: trimmed, NFKC, lower case.  Raises UnusableEmailAddress."""
    normal = unicodedata.normalize("NFKC", text).strip().lower()
    if not normal:
        raise UnusableEmailAddress("expected an e-mail address; it is empty")
    if len(normal) > EMAIL_LENGTH_MAX:
        raise UnusableEmailAddress(
            f"expected at most {EMAIL_LENGTH_MAX} characters; there were {len(normal)}"
        )
    from email_validator import (  # noqa: PLC0415 - its patterns take 20 ms, most commands need none
        EmailNotValidError,
        validate_email,
    )

    try:
        with parsed_by_others():
            parts = validate_email(
                normal, check_deliverability=False, allow_smtputf8=False, strict=True
            )
    except Undecodable as flaw:
        known = f". {flaw.__cause__}" if isinstance(flaw.__cause__, EmailNotValidError) else ""
        raise UnusableEmailAddress(
            f"expected an e-mail address, as name@example.org{known}"
        ) from flaw
    return EmailAddress(parts.normalized.lower())
