"""The form of an application: accepted values, and messages about the others."""

import unicodedata
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.accounts.signups.application import Form, UserType, parse_form
from mintscope.kit.errors import InvalidFields

GOOD: Final[dict[str, object]] = {
    "email": "agent@example.org",
    "userType": "trader",
    "motivation": "To trade.",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def wrong(fields: dict[str, object]) -> dict[str, str]:
    """Return the messages about wrong *fields*, by field; fail if no field is wrong."""
    with pytest.raises(InvalidFields) as caught:
        parse_form(fields)
    reported = dict(caught.value.messages)
    assert len(reported) == len(caught.value.messages)
    return reported


def test_the_fields_of_a_form_are_normalised() -> None:
    form = parse_form(
        {
            "email": "  Agent@Example.ORG ",
            "telegram": " @agent ",
            "twitter": "agent",
            "userType": "both",
            "motivation": "\n To trade.\r\nAlone.\tReally. \n",
            "referrer": "ignored",
        }
    )

    assert form == Form(
        email=form.email,
        telegram="@agent",
        twitter="agent",
        user_type=UserType.BOTH,
        motivation="To trade.\nAlone.\tReally.",
    )
    assert form.email == "agent@example.org"


@pytest.mark.parametrize("nothing", [None, "", "   "])
def test_handles_are_optional(nothing: object) -> None:
    form = parse_form(GOOD | {"telegram": nothing, "twitter": nothing})

    assert (form.telegram, form.twitter) == (None, None)


def test_all_wrong_fields_are_named_together() -> None:
    reported = wrong({"email": 7, "telegram": [], "twitter": "a\x00b", "userType": "king"})

    assert list(reported) == ["email", "telegram", "twitter", "userType", "motivation"]
    assert reported["email"] == "expected a string; was a number"
    assert reported["telegram"] == "expected a string; was a list"
    assert reported["userType"] == "expected one of trader, provider, both; was 'king'"
    assert reported["motivation"] == "expected a value; it is missing"


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("email", None, "missing"),
        ("email", "", "empty"),
        ("email", "a@b", "example.org"),
        ("email", "a@example.org, b@example.org", "example.org"),
        ("email", "a@example.org\nBcc: b@example.org", "example.org"),
        ("email", "\N{CYRILLIC SMALL LETTER A}@example.org", "example.org"),
        ("email", "a" * 65 + "@example.org", "example.org"),
        ("email", "\ud800@example.org", "example.org"),
        ("email", "a@" + "b." * 130 + "org", "254"),
        ("telegram", "a" * 65, "at most 64 characters; there were 65"),
        ("telegram", "a\nb", "control"),
        ("twitter", "a\x1b[2Jb", "control"),
        ("twitter", "a\N{RIGHT-TO-LEFT OVERRIDE}b", "control"),
        ("userType", "", "expected one of"),
        ("userType", "TRADER", "expected one of"),
        ("userType", True, "a boolean"),
        ("motivation", " \n\t ", "empty"),
        ("motivation", "a" * 4_001, "at most 4000 characters; there were 4001"),
        ("motivation", "a\x00b", "control"),
        ("motivation", "a\x1b[2Jb", "control"),
        ("motivation", "a\ud800b", "control"),
        ("motivation", {"a": 1}, "an object"),
    ],
)
def test_an_unusable_field_is_named_with_its_reason(field: str, value: object, part: str) -> None:
    reported = wrong(GOOD | {field: value})

    assert list(reported) == [field]
    assert part in reported[field]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("telegram", "a" * 64),
        ("motivation", "a" * 4_000),
        ("motivation", " " + "a" * 4_000 + "\n"),
        ("motivation", "x"),
        ("motivation", "Zażółć gęślą jaźń 👩\N{ZERO WIDTH JOINER}💻 שלום"),
    ],
)
def test_values_at_the_limit_are_accepted(field: str, value: object) -> None:
    parse_form(GOOD | {field: value})


def test_a_long_wrong_value_is_cut_in_its_message() -> None:
    assert len(wrong(GOOD | {"userType": "k" * 10_000})["userType"]) < 200


def attempt(fields: dict[str, object]) -> Form | set[str]:
    """Return the parsed form, or the names of the fields that are wrong."""
    try:
        return parse_form(fields)
    except InvalidFields as refusal:
        return {message.field for message in refusal.messages}


@given(fields=st.fixed_dictionaries({}, optional=dict.fromkeys(GOOD, json_values)))
def test_any_json_becomes_a_form_or_a_list_of_wrong_fields(fields: dict[str, Any]) -> None:
    outcome = attempt(fields)

    if isinstance(outcome, Form):
        assert outcome.motivation
    else:
        assert set() < outcome <= set(GOOD)


@given(text=st.text(st.characters(), min_size=1, max_size=200))
def test_a_motivation_has_no_control_characters_except_newlines_and_tabs(text: str) -> None:
    outcome = attempt(GOOD | {"motivation": text})

    if isinstance(outcome, Form):
        signs = set(outcome.motivation) - {"\n", "\t"}
        assert not any(unicodedata.category(sign) in {"Cc", "Cs"} for sign in signs)
        assert outcome.motivation == outcome.motivation.strip()
        assert outcome.motivation.encode()
    else:
        assert outcome == {"motivation"}
