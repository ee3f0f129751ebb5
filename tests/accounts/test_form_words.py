"""The messages to applicants about each field, and constants on which applicants rely."""

from typing import Final

import pytest

from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import COOKIE_BYTES, COOKIE_LENGTH
from mintscope.accounts.signups.application import (
    HANDLE_LENGTH_MAX,
    NOTE_LENGTH_MAX,
    FieldReader,
    parse_form,
)
from mintscope.accounts.signups.signups import KEY_NAME, SWEEP_MAX, WRONG_CODE
from mintscope.kit.errors import InvalidFields

GOOD: Final[dict[str, object]] = {
    "email": "agent@example.org",
    "userType": "trader",
    "motivation": "To trade.",
}


@pytest.mark.parametrize(
    ("field", "value", "reported"),
    [
        ("motivation", True, "expected a string; was a boolean"),
        ("motivation", 1, "expected a string; was a number"),
        ("motivation", 1.5, "expected a string; was a number"),
        ("motivation", [], "expected a string; was a list"),
        ("motivation", {}, "expected a string; was an object"),
        ("motivation", b"", "expected a string; was something else"),
        ("motivation", None, "expected a value; it is missing"),
        ("motivation", " \n", "expected why access is wanted and what for; it is empty"),
        ("motivation", "a" * 4_001, "expected at most 4000 characters; there were 4001"),
        ("motivation", "a\x00", "expected text; it holds control characters"),
        ("telegram", "a" * 65, "expected at most 64 characters; there were 65"),
        ("telegram", "a\nb", "expected one line of text; it holds control characters"),
        ("userType", "k" * 51, f"expected one of trader, provider, both; was '{'k' * 50}'"),
        ("email", "", "expected an e-mail address; it is empty"),
    ],
)
def test_an_invalid_field_gets_one_exact_message(field: str, value: object, reported: str) -> None:
    with pytest.raises(InvalidFields) as caught:
        parse_form(GOOD | {field: value})

    assert [(each.field, each.message) for each in caught.value.messages] == [(field, reported)]


def test_a_text_is_returned_unchanged_and_must_be_present() -> None:
    reader = FieldReader({"code": " 1 "})
    assert reader.text("code") == " 1 "
    reader.expect_sound()

    assert reader.text("other") == ""
    with pytest.raises(InvalidFields):
        reader.expect_sound()


def test_line_ends_become_newlines_and_handles_are_trimmed() -> None:
    assert parse_form(GOOD | {"motivation": "a\r\nb\rc\n\td"}).motivation == "a\nb\nc\n\td"
    assert parse_form(GOOD | {"telegram": " @a "}).telegram == "@a"


def test_a_wrong_code_is_refused_with_advice() -> None:
    assert WRONG_CODE == (
        "expected the eight digits in the e-mail; they are wrong or expired, or five guesses"
        " failed: try the link in the e-mail"
    )


def test_secrets_have_32_bytes_and_texts_and_sweeps_are_bounded() -> None:
    assert (NONCE_BYTES, COOKIE_BYTES, COOKIE_LENGTH) == (32, 32, 43)
    assert (HANDLE_LENGTH_MAX, NOTE_LENGTH_MAX, SWEEP_MAX) == (64, 2_000, 500)
    assert KEY_NAME == "agent signup"
