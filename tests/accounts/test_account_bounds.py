"""The rules of accounts at the bounds of times, lengths of texts, and numbers of items."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import pytest
from typing_extensions import override

from mintscope.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.accounts.factor_rows import User, UserKind, expect_username, username_of
from mintscope.accounts.keys.key import (
    KEYS_PER_DAY_MAX,
    KEYS_PER_USER_MAX,
    KEYS_SHOWN_MAX,
    LIFETIMES_MS,
    OVERLAPS_MS,
    KeyLine,
    KeyStatus,
)
from mintscope.accounts.keys.scope import Scope, UnknownScope, in_order, parse_scopes, with_reads
from mintscope.accounts.mail.email import (
    ADMITTED,
    Draft,
    EmailId,
    EmailKind,
)
from mintscope.accounts.mail.outbox import retry_at
from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.accounts.session import (
    AGENT_LENGTH_MAX,
    GUESSES_MAX,
    SESSIONS_PER_USER_MAX,
    EmailProof,
    Lifetimes,
    NewProof,
    ProofId,
    Purpose,
    Session,
    SessionId,
    link_text,
    parse_link,
)
from mintscope.accounts.signups.application import (
    Application,
    ApplicationState,
    Form,
    SignupId,
    UserType,
    is_sent_again,
    subject_of,
)
from mintscope.accounts.user import LoginLimit, LoginLimits, WeakPassword, expect_password
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import visible
from mintscope.kit.limits import Limit, Limiter, MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS

NOW: Final = UnixMs(1_800_000_000_000)
EMAIL: Final = EmailAddress("alice@example.org")
USER: Final = User(
    user_id=UserId(7),
    kind=UserKind.PERSON,
    username="alice",
    email=EMAIL,
    verified_at=None,
    is_administrator=False,
    created_at=NOW,
)


def later(ms: int) -> UnixMs:
    return UnixMs(NOW + ms)


def application(state: ApplicationState) -> Application:
    return Application(
        signup_id=SignupId(1),
        form=Form(
            email=EMAIL, telegram=None, twitter=None, user_type=UserType.BOTH, motivation="To."
        ),
        state=state,
        applied_at=NOW,
        confirmed_at=None,
        decided_at=None,
        decided_by=None,
        scopes=frozenset(),
        note="",
        issued_at=None,
        user_removed=False,
    )


def test_an_application_lapses_if_it_is_not_confirmed_for_three_days() -> None:
    waiting = application(ApplicationState.AWAITING_CONFIRMATION)

    assert not waiting.has_lapsed(later(3 * DAY_MS - 1))
    assert waiting.has_lapsed(later(3 * DAY_MS))
    assert not application(ApplicationState.AWAITING_APPROVAL).has_lapsed(later(9 * DAY_MS))
    assert subject_of(SignupId(3)) == "application:3"


def test_an_answer_is_redelivered_for_ten_minutes_to_the_same_key() -> None:
    one, other = CredentialHash(b"1" * 32), CredentialHash(b"2" * 32)

    assert is_sent_again(one, one, after_ms=10 * MINUTE_MS - 1)
    assert not is_sent_again(one, one, after_ms=10 * MINUTE_MS)
    assert not is_sent_again(one, other, after_ms=0)
    assert not is_sent_again(None, one, after_ms=0)
    assert not is_sent_again(one, None, after_ms=0)
    assert not is_sent_again(None, None, after_ms=0)


def test_control_characters_in_a_text_are_shown_as_escapes() -> None:
    assert visible("a\x1bb\n\N{RIGHT-TO-LEFT OVERRIDE}é") == "a\\x1bb\\n\\u202eé"
    assert visible("a\nb\tc", keep="\n") == "a\nb\\tc"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("  ALICE@Example.ORG\t", "alice@example.org"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}@example.org", "a@example.org"),
        ("alice@BÜCHER.example", "alice@bücher.example"),
        ("a" * 64 + "@" + "b" * 60 + ".example.org", "a" * 64 + "@" + "b" * 60 + ".example.org"),
    ],
)
def test_an_email_address_is_normalised(text: str, parsed: str) -> None:
    assert parse_email(text) == parsed


def address(length: int) -> str:
    """Return an e-mail address of *length* characters with domain labels of at most 63."""
    start = "a" * 64 + "@" + ".".join(["b" * 57] * 3) + "."
    return start + "c" * (length - len(start) - 4) + ".org"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (" \t", "expected an e-mail address; it is empty"),
        (address(255), "expected at most 254 characters; there were 255"),
        ("alice", "expected an e-mail address, as name@example.org. An email address must"),
        ("é@example.org", "expected an e-mail address, as name@example.org. "),
        ("alice@localhost", "expected an e-mail address, as name@example.org. "),
        ("a" * 65 + "@example.org", "expected an e-mail address, as name@example.org. "),
    ],
)
def test_an_unusable_address_is_refused_with_the_reason(text: str, reported: str) -> None:
    with pytest.raises(UnusableEmailAddress) as caught:
        parse_email(text)

    assert str(caught.value).startswith(reported)


def test_an_address_may_have_254_characters() -> None:
    assert len(address(254)) == 254
    assert parse_email(address(254)) == address(254)


@pytest.mark.parametrize(
    ("purpose", "lifetime_ms"),
    [
        (Purpose.CONFIRM_APPLICATION, 72 * HOUR_MS),
        (Purpose.VERIFY_EMAIL, 24 * HOUR_MS),
        (Purpose.RESET_PASSWORD, HOUR_MS),
        (Purpose.CLAIM_AGENT, HOUR_MS),
    ],
)
def test_a_proof_is_valid_once_for_its_purpose_until_it_expires(
    purpose: Purpose, lifetime_ms: int
) -> None:
    new = NewProof(purpose, 1, EMAIL, b"n", NOW)
    kept = proof(purpose, expires_at=new.expires_at)

    assert purpose.lifetime_ms == lifetime_ms
    assert kept.is_good(purpose, later(lifetime_ms - 1))
    assert not kept.is_good(purpose, later(lifetime_ms))
    assert not proof(purpose, used_at=NOW).is_good(purpose, NOW)
    assert not any(kept.is_good(other, NOW) for other in Purpose if other is not purpose)
    assert (kept.guesses, GUESSES_MAX) == (0, 5)


def proof(purpose: Purpose, **changes: Any) -> EmailProof:
    parts: dict[str, Any] = {
        "proof_id": ProofId(3),
        "purpose": purpose,
        "subject": 1,
        "email": EMAIL,
        "nonce": b"n",
        "made_at": NOW,
        "expires_at": later(HOUR_MS),
        "used_at": None,
    }
    return EmailProof(**(parts | changes))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("3.abc", (3, "abc")),
        ("3.", (3, "")),
        ("3.a.b", (3, "a.b")),
        ("9" * 18 + ".a", (10**18 - 1, "a")),
        ("9" * 19 + ".a", None),
        ("3", None),
        (".a", None),
        ("-3.a", None),
        ("\N{ARABIC-INDIC DIGIT THREE}.a", None),
        ("\N{SUPERSCRIPT TWO}.a", None),
        ("x.a", None),
        ("", None),
    ],
)
def test_a_link_is_parsed_into_a_number_and_a_text(
    text: str, parsed: tuple[int, str] | None
) -> None:
    assert parse_link(text) == parsed
    if parsed is not None:
        assert parse_link(link_text(ProofId(parsed[0]), parsed[1])) == parsed


@pytest.mark.parametrize(
    ("email", "name"),
    [
        ("alice@example.org", "alice-00010203"),
        ("al.ice+tag@example.org", "al-ice-00010203"),
        ("+tag@example.org", "agent-00010203"),
        ("-a-@example.org", "a-00010203"),
        ("xavier.x@example.org", "xavier-x-00010203"),
        ("é@example.org", "agent-00010203"),
        ("a" * 30 + "@example.org", "a" * 23 + "-00010203"),
    ],
)
def test_a_user_name_is_made_of_the_plain_characters_of_an_address(email: str, name: str) -> None:
    assert username_of(EmailAddress(email), lambda count: bytes(range(count))) == name
    assert expect_username(name) == name


def line(**changes: Any) -> KeyLine:
    parts: dict[str, Any] = {
        "key_id": KeyId(1),
        "user_id": UserId(7),
        "name": "a key",
        "hint": "...12345678",
        "scopes": frozenset(),
        "created_at": NOW,
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": None,
        "replaced_by": None,
        "month_credits_max": None,
        "networks": "",
    }
    return KeyLine(**(parts | changes))


def test_a_key_is_accepted_until_it_is_revoked_or_expires() -> None:
    ending = line(expires_at=later(10))

    assert line().status(later(10**12)) is KeyStatus.ACTIVE
    assert ending.status(later(9)) is KeyStatus.ACTIVE
    assert ending.status(later(10)) is KeyStatus.EXPIRED
    assert line(revoked_at=NOW, expires_at=NOW).status(NOW) is KeyStatus.REVOKED


def test_keys_have_fixed_limits_overlaps_and_lifetimes() -> None:
    """The forms use the names of the overlaps and lifetimes, such as `24h` and `never`."""
    assert (KEYS_PER_USER_MAX, KEYS_PER_DAY_MAX, KEYS_SHOWN_MAX) == (100, 200, 500)
    assert {"0": 0, "1h": HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS} == OVERLAPS_MS
    assert {
        "30d": 30 * DAY_MS,
        "90d": 90 * DAY_MS,
        "1y": 365 * DAY_MS,
        "never": None,
    } == LIFETIMES_MS


def test_scopes_are_parsed_sorted_and_completed_by_read_scopes() -> None:
    written = parse_scopes(["wallets:write", "trade:write"])

    assert written == {Scope.WALLETS_WRITE, Scope.TRADE_WRITE}
    assert in_order(written) == [Scope.TRADE_WRITE, Scope.WALLETS_WRITE]
    assert with_reads(written) == written | {Scope.WALLETS_READ, Scope.TRADE_READ}
    assert with_reads([Scope.TRADE_READ]) == {Scope.TRADE_READ}
    with pytest.raises(UnknownScope) as caught:
        parse_scopes(["trade:read", "all"])
    assert str(caught.value) == (
        "expected scopes among trade:read, trade:write, wallets:read, wallets:write, signals:read,"
        " signals:write, groups:read, groups:write; was 'all'"
    )


class Written(SqlEmailRows):
    """E-mail rows without a store: `written_to` returns the *drafts* of the requested kind."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts = drafts
        self.since: UnixMs | None = None

    @override
    def written_to(
        self, recipient: EmailAddress, kind: EmailKind, since: UnixMs
    ) -> Sequence[Draft]:
        self.since = since
        assert recipient == EMAIL
        return [each for each in self._drafts if each.kind is kind]


def draft(kind: EmailKind = EmailKind.RESET_PASSWORD, **changes: Any) -> Draft:
    return Draft(email_id=EmailId(1), kind=kind, recipient=EMAIL, written_at=NOW, **changes)


def test_an_address_that_is_not_verified_gets_five_emails_of_a_kind_in_a_day() -> None:
    four, five = ([draft(EmailKind.NEW_KEY)] * count for count in (4, 5))
    written = Written(four)

    assert written.may_write(USER, EmailKind.NEW_KEY, NOW)
    assert written.since == NOW - DAY_MS
    assert not Written(five).may_write(USER, EmailKind.NEW_KEY, NOW)
    assert Written(five).may_write(USER, EmailKind.VERIFY_EMAIL, NOW)


@pytest.mark.parametrize(
    ("count", "changes", "may"),
    [
        (19, {}, True),
        (20, {}, False),
        (20, {"given_up_at": NOW}, True),
        (20, {"proof": None}, True),
        (20, {"proof": proof(Purpose.RESET_PASSWORD, used_at=NOW)}, True),
        (20, {"proof": proof(Purpose.RESET_PASSWORD, expires_at=later(HOUR_MS // 2))}, True),
        (20, {"proof": proof(Purpose.RESET_PASSWORD, expires_at=later(HOUR_MS // 2 + 1))}, False),
    ],
)
def test_the_limit_of_reset_links_counts_only_if_the_owner_has_a_valid_link(
    count: int, changes: dict[str, Any], *, may: bool
) -> None:
    """A link counts as valid if it has more than half an hour left."""
    good: dict[str, Any] = {"proof": proof(Purpose.RESET_PASSWORD)}
    written = Written([draft(**(good | changes))] * count)

    assert written.may_write_reset(EMAIL, NOW) is may
    assert written.since == NOW - DAY_MS


def test_emails_that_anyone_can_request_for_an_address_are_limited() -> None:
    assert [(each.name, each.count, each.window_s) for each in ADMITTED] == [
        ("e-mails in five minutes", 1, 300),
        ("e-mails in an hour", 3, 3_600),
        ("e-mails in a day", 5, 86_400),
    ]


def test_an_email_waits_until_it_is_sent_or_given_up() -> None:
    assert draft().is_waiting
    assert not draft(sent_at=NOW).is_waiting
    assert not draft(given_up_at=NOW).is_waiting
    assert (draft().attempts, draft().reason, draft().proof, draft().facts) == (0, None, None, {})


@pytest.mark.parametrize(
    ("attempts", "pause_ms"),
    [(0, MINUTE_MS), (1, 2 * MINUTE_MS), (8, 256 * MINUTE_MS), (9, 6 * HOUR_MS)],
)
def test_pauses_between_attempts_double(attempts: int, pause_ms: int) -> None:
    assert retry_at(draft(attempts=attempts), NOW) == later(pause_ms)


def test_the_last_attempt_is_three_days_after_the_email_was_written() -> None:
    assert retry_at(draft(attempts=10**6), later(3 * DAY_MS - 1)) == later(3 * DAY_MS)
    assert retry_at(draft(), later(3 * DAY_MS)) is None


@pytest.mark.parametrize("password", ["abcdefghij", "a1" * 5 + "bc", "abcd" * 50])
def test_a_password_of_10_to_200_characters_is_accepted(password: str) -> None:
    assert expect_password(password, email=EMAIL) == password


@pytest.mark.parametrize(
    ("password", "reported"),
    [
        ("abcdefghi", "expected 10 to 200 characters; there were 9"),
        ("abcd" * 50 + "e", "expected 10 to 200 characters; there were 201"),
        ("abcabcabcabc", "expected a password that is harder to guess"),
        ("Alice@Example.ORG", "expected a password that is harder to guess"),
        ("WONDERLAND", "expected a password that is harder to guess"),
    ],
)
def test_a_weak_password_is_refused_with_the_reason(password: str, reported: str) -> None:
    email = "wonderland@example.org" if password == "WONDERLAND" else EMAIL
    with pytest.raises(WeakPassword) as caught:
        expect_password(password, email=email)

    assert str(caught.value) == reported


# Made from common words, of ten characters and more.
COMMONEST = (
    *("1234567890", "0123456789", "9876543210", "1111111111", "1q2w3e4r5t", "q1w2e3r4t5"),
    *("1qaz2wsx3edc", "zaq12wsxzaq1", "123qweasdzxc", "qweasdzxc123", "qwe123qwe123", "qwertyuiop"),
    *("qwerty1234", "Qwerty123!", "asdfghjkl1", "password12", "p@ssw0rd123", "passw0rd!!"),
    *("iloveyou12", "basketball", "football12", "liverpool1", "chocolate1", "michael123"),
    *("jennifer1!", "charlie2020", "sunshine11", "princess99", "welcome2024", "letmein1234"),
    *("monkey12345", "dragon1234", "superman12", "batman12345", "pokemon123", "starwars77"),
    *("solana12345", "bitcoin2021", "summer2024!", "hello12345", "lovelove12"),
)
STRONG = (
    *("correct horse battery", "x7k2m9q4w8", "tiger-lily-44-rain", "hunter of stars"),
    "Zr!9vT#2mQ",
)


def test_the_commonest_passwords_are_refused_and_strong_passwords_are_not() -> None:
    def is_refused(password: str) -> bool:
        try:
            expect_password(password, email=EMAIL)
        except WeakPassword:
            return True
        return False

    assert [each for each in COMMONEST if not is_refused(each)] == []
    commonest = import_module("zxcvbn.frequency_lists").FREQUENCY_LISTS["passwords"][:10_000]
    assert [each for each in commonest if not is_refused(each.capitalize())] == []
    assert [each for each in STRONG if is_refused(each)] == []


def test_the_default_limits_are_10_guesses_50_per_client_and_20_sign_ups() -> None:
    assert LoginLimits() == LoginLimits(one=10, all=50, signups=20)


class Noted:
    """Limits in memory; *asked* has each limit for which a limiter was requested."""

    def __init__(self) -> None:
        self.asked: list[Limit] = []
        self._limits = MemoryLimits(ManualClock(NOW))

    def limiter(self, limit: Limit, *, window: str | None = None) -> Limiter:
        self.asked.append(limit)
        return self._limits.limiter(limit, window=window)


def test_guesses_and_new_accounts_have_these_limits_and_windows() -> None:
    """The metrics use the names of these limits."""
    limits = Noted()
    LoginLimit(LoginLimits(), limits)

    assert limits.asked == [
        Limit(name="guesses", count=10, window_s=900),
        Limit(name="guesses of a site", count=40, window_s=900),
        Limit(name="guesses of a client", count=50, window_s=900),
        Limit(name="all guesses of a site", count=200, window_s=900),
        Limit(name="accounts of a client", count=20, window_s=3_600),
        Limit(name="accounts of a site", count=80, window_s=3_600),
    ]


def session(**changes: Any) -> Session:
    parts: dict[str, Any] = {
        "session_id": SessionId(1),
        "user": USER,
        "created_at": NOW,
        "seen_at": NOW,
        "proved_at": NOW,
        "address": "192.0.2.1",
        "agent": "a browser",
        "csrf": "",
    }
    return Session(**(parts | changes))


def test_a_session_ends_after_half_an_hour_unused_or_twelve_hours_in_total() -> None:
    lives, used = Lifetimes(), session(seen_at=later(12 * HOUR_MS))

    assert lives.hold(session(), later(30 * MINUTE_MS - 1))
    assert not lives.hold(session(), later(30 * MINUTE_MS))
    assert lives.hold(used, later(12 * HOUR_MS - 1))
    assert not lives.hold(used, later(12 * HOUR_MS))


def test_a_proof_of_the_password_is_fresh_for_ten_minutes() -> None:
    assert session().is_fresh(later(10 * MINUTE_MS - 1))
    assert not session().is_fresh(later(10 * MINUTE_MS))


def test_the_use_of_a_session_is_noted_every_minute() -> None:
    brief = Lifetimes(idle_ms=40_000)

    assert not Lifetimes().is_to_be_noted(session(), later(MINUTE_MS - 1))
    assert Lifetimes().is_to_be_noted(session(), later(MINUTE_MS))
    assert not brief.is_to_be_noted(session(), later(9_999))
    assert brief.is_to_be_noted(session(), later(10_000))


def test_a_person_has_at_most_100_sessions_and_user_agents_are_cut_at_200() -> None:
    assert (SESSIONS_PER_USER_MAX, AGENT_LENGTH_MAX) == (100, 200)
