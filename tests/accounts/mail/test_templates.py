"""Texts of e-mails: the reason, the next step, and advice if they reach the wrong person."""

import re
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import Draft, Email, EmailId, EmailKind
from mintscope.accounts.mail.templates import EmailWithoutLink, compose
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import ProofId, link_text
from support.scenes.people_service import NOW, SECRETS, proof

ORIGIN: Final = "https://api.example.org"
NONCE: Final = bytes(range(32))
FACTS: Final = {
    "hint": "...12345678",
    "scopes": "trade:read, trade:write",
    "username": "a-0123",
    "title": "SOL: SOL rose above $200.00 (now $201.00)",
}
PATHS: Final = {
    EmailKind.CONFIRM_APPLICATION: "/confirm/",
    EmailKind.VERIFY_EMAIL: "/verify/",
    EmailKind.RESET_PASSWORD: "/reset/",
    EmailKind.CLAIM_AGENT: "/claim/",
    EmailKind.CHANGE_EMAIL: "/change-email/",
    EmailKind.EMAIL_CHANGED: "/undo-email/",
}
HOURS: Final = {
    EmailKind.CONFIRM_APPLICATION: 72,
    EmailKind.VERIFY_EMAIL: 24,
    EmailKind.RESET_PASSWORD: 1,
    EmailKind.CLAIM_AGENT: 1,
    EmailKind.CHANGE_EMAIL: 24,
    EmailKind.EMAIL_CHANGED: 7 * 24,
}


def email(kind: EmailKind, *, origin: str = ORIGIN, **changes: Any) -> Email:
    known: dict[str, Any] = {
        "email_id": EmailId(3),
        "kind": kind,
        "recipient": EmailAddress("alice@example.org"),
        "written_at": NOW,
        "facts": FACTS,
        "proof": proof(7, NONCE) if kind in PATHS else None,
    }
    return compose(Draft(**(known | changes)), origin=origin, secrets=SECRETS, name="mintscope")


@pytest.mark.parametrize("kind", EmailKind)
def test_every_email_is_plain_short_and_complete(kind: EmailKind) -> None:
    written = email(kind)
    lines = written.text.splitlines()

    assert written.recipient == "alice@example.org"
    assert written.text.isascii()
    assert len(lines) < 40
    assert all(len(line) <= 76 for line in lines if "/" not in line)
    assert lines[-2:] == ["-- ", f"mintscope, {ORIGIN}"]  # RFC 3676: the beginning of a signature
    assert re.search(
        r"was not\s+you|If not,|no\s+action\s+is\s+needed|did\s+not\s+(expect|create)",
        written.text,
        re.IGNORECASE,
    )
    assert 0 < len(written.subject) <= 60
    assert "{" not in written.text + written.subject


@pytest.mark.parametrize("kind", EmailKind)
def test_all_links_begin_with_the_configured_origin(kind: EmailKind) -> None:
    links = re.findall(r"\w+://\S+", email(kind).text)

    assert links
    assert all(link.startswith(f"{ORIGIN}") for link in links)


@pytest.mark.parametrize("kind", PATHS)
def test_a_link_is_derived_from_the_nonce_and_stands_on_a_line_of_its_own(kind: EmailKind) -> None:
    link = f"{ORIGIN}{PATHS[kind]}{link_text(ProofId(7), SECRETS.link_of(NONCE))}"

    assert link in email(kind).text.splitlines()
    assert link not in email(kind, proof=proof(7, bytes(32))).text


@pytest.mark.parametrize("kind", PATHS)
def test_an_email_states_the_expiry_of_its_link(kind: EmailKind) -> None:
    end = datetime.fromtimestamp(NOW // 1000 + HOURS[kind] * 3_600, UTC)

    assert f"{end:%d %B %Y, %H:%M} UTC" in email(kind).text


@pytest.mark.parametrize("kind", PATHS)
def test_an_email_that_needs_a_link_is_refused_without_its_proof(kind: EmailKind) -> None:
    with pytest.raises(EmailWithoutLink):
        email(kind, proof=None)


def test_only_the_confirmation_of_an_application_contains_the_code() -> None:
    code = SECRETS.code_of(NONCE)

    assert code in email(EmailKind.CONFIRM_APPLICATION).text.splitlines()
    for kind in set(PATHS) - {EmailKind.CONFIRM_APPLICATION}:
        assert code not in email(kind).text


def test_an_email_about_a_key_shows_its_hint_and_scopes() -> None:
    text = email(EmailKind.NEW_KEY).text

    assert "svc_live_...12345678" in text
    assert "trade:read, trade:write" in text


def test_the_message_id_of_an_email_is_equal_at_every_attempt() -> None:
    first, again = (email(EmailKind.NEW_KEY, attempts=times).message_id for times in (0, 9))

    assert first == again
    assert re.fullmatch(r"<[0-9a-f]{32}@api\.example\.org>", first)


def test_different_emails_have_different_message_ids() -> None:
    names = [
        email(EmailKind.NEW_KEY).message_id,
        email(EmailKind.NEW_KEY, email_id=EmailId(4)).message_id,
        email(EmailKind.NEW_KEY, written_at=NOW + 1).message_id,  # after a restored backup
    ]
    other = AccountSecrets.derive(bytes(32))
    draft = Draft(
        email_id=EmailId(3),
        kind=EmailKind.NEW_KEY,
        recipient=EmailAddress("alice@example.org"),
        written_at=NOW,
    )
    names.append(compose(draft, origin=ORIGIN, secrets=other, name="mintscope").message_id)

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("origin", "domain"),
    [
        ("http://127.0.0.1:8402", "127.0.0.1"),
        ("http://[::1]:8402", "localhost"),
        ("https://b\u00fccher.example", "localhost"),
    ],
)
def test_the_domain_of_a_message_id_is_valid_in_a_header(origin: str, domain: str) -> None:
    assert email(EmailKind.NEW_KEY, origin=origin).message_id.endswith(f"@{domain}>")
