"""Words that no version may change: agents compare them, and stored rows contain them."""

import hmac
from base64 import urlsafe_b64encode
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import UserKind
from mintscope.accounts.keys.key import NAME_LENGTH_MAX, KeyStatus
from mintscope.accounts.keys.scope import AREAS, OPEN_SCOPES, READ_SCOPES, Scope
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.people import NO_USER
from mintscope.accounts.rows import NO_HASH
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Purpose
from mintscope.accounts.signups.application import UNDECIDED, ApplicationState, SignupId, UserType
from mintscope.accounts.signups.reviews import STANDINGS
from mintscope.accounts.user import TooManyAttempts
from mintscope.accounts.wallets.credits import KEPT_KEY
from mintscope.kit.audit import APPLICANT, COMMAND_LINE, MAILBOX, SERVICE, user_actor
from mintscope.kit.credentials import CredentialKind, hash_credential, is_well_formed
from mintscope.kit.primitives import UnixMs

ROOT: Final = b"r" * 32
SECRETS: Final = AccountSecrets.derive(ROOT)
EMAIL: Final = EmailAddress("agent@example.org")


def test_the_words_in_stored_rows_are_unchanged() -> None:
    assert [*ApplicationState] == [
        "awaiting_confirmation",
        "awaiting_approval",
        "approved",
        "rejected",
        "key_issued",
    ]
    assert [*UserType] == ["trader", "provider", "both"]
    assert [*UserKind] == ["person", "agent"]
    assert [*KeyStatus] == ["active", "expired", "revoked"]
    assert [*Purpose] == [
        "confirm_application",
        "verify_email",
        "reset_password",
        "claim_agent",
        "change_email",
        "undo_email",
    ]
    assert [*EmailKind] == [
        "confirm_application",
        "application_approved",
        "application_rejected",
        "new_key",
        "verify_email",
        "reset_password",
        "password_changed",
        "claim_agent",
        "change_email",
        "email_changed",
        "account_removed",
        "second_factor",
        "signal_fired",
        "webhook_disabled",
        "wallet_linked",
        "signal_limit",
        "signal_hour_limit",
        "spend_alert",
        "application_reopened",
        "key_networks",
        "credits_moved",
    ]
    assert {
        ApplicationState.AWAITING_CONFIRMATION,
        ApplicationState.AWAITING_APPROVAL,
    } == UNDECIDED


def test_the_names_of_actors_in_the_audit_log_are_unchanged() -> None:
    assert (COMMAND_LINE, SERVICE) == ("command line", "service")
    assert (APPLICANT, MAILBOX, user_actor(7)) == ("applicant", "mailbox", "user:7")


def test_the_scopes_and_their_descriptions_are_unchanged() -> None:
    assert [*Scope] == [
        "trade:read",
        "trade:write",
        "wallets:read",
        "wallets:write",
        "signals:read",
        "signals:write",
        "groups:read",
        "groups:write",
    ]
    assert [area.name for area in AREAS] == ["trade", "wallets", "signals", "groups"]
    assert {*Scope} == OPEN_SCOPES
    assert {scope for scope in Scope if not scope.is_write} == READ_SCOPES
    assert [(area.read, area.write) for area in AREAS] == [
        (
            "Spend the credits of your account on data, and see its spending.",
            "Buy credits, move credits between your account and credit tokens, and lower caps.",
        ),
        ("See linked wallets and their payments.", "Link and unlink wallets."),
        (
            "See alerts and their firings.",
            "Make, change, test and delete alerts.",
        ),
        ("See watchlists.", "Make, change and delete watchlists."),
    ]


def derived(use: bytes) -> bytes:
    return hmac.digest(ROOT, b"mintscope " + use + b" 1", "sha256")


def test_secrets_links_and_codes_of_older_versions_remain_valid() -> None:
    """Secrets, links and codes are derived and never stored, so derivations must not change."""
    assert AccountSecrets(
        pepper=ROOT,
        application=derived(b"application"),
        api_key=derived(b"api key"),
        redeem=derived(b"account redeem"),
        mail=derived(b"mail"),
        form=derived(b"form"),
        factor=derived(b"second factor"),
        credit=derived(b"withdrawal"),
        wallet=derived(b"wallet"),
        webhook=derived(b"webhook"),
    ) == AccountSecrets.derive(ROOT)
    nonce = b"n" * 32
    link = hmac.digest(SECRETS.mail, b"link" + nonce, "sha256")
    code = int.from_bytes(hmac.digest(SECRETS.mail, b"code" + nonce, "sha256")[:16])
    redeem = hmac.digest(SECRETS.redeem, b"agent@example.org\nkey", "sha256")

    assert SECRETS.link_of(nonce) == urlsafe_b64encode(link).decode()[:43]
    assert len(SECRETS.link_of(nonce)) == 43
    assert int(SECRETS.code_of(nonce)) == code % 10**8
    assert len(SECRETS.code_of(nonce)) == 8
    assert SECRETS.email_name(7, UnixMs(9)) == "2b45eb459f87fd508982f1b7d4ecff71"
    assert SECRETS.redeem_hash("key", EMAIL) == redeem
    assert SECRETS.redeem_hash(None, EMAIL) is None
    webhook = hmac.digest(SECRETS.webhook, nonce, "sha256")
    assert SECRETS.webhook_secret(nonce) == webhook
    assert SECRETS.csrf_of("cookie") == hmac.digest(SECRETS.form, b"cookie", "sha256").hex()
    assert SECRETS.hash("a text") == hash_credential("a text", pepper=ROOT)
    assert SECRETS.is_link_of(nonce, SECRETS.link_of(nonce))
    assert not SECRETS.is_link_of(nonce, SECRETS.link_of(nonce) + "x")
    assert not SECRETS.is_link_of(nonce, "\ud800")
    assert SECRETS.is_code_of(nonce, SECRETS.code_of(nonce))
    assert not SECRETS.is_code_of(nonce, "0" * 9)


def test_the_keys_of_credit_tokens_from_an_account_deletion_are_unchanged() -> None:
    assert [KEPT_KEY.format(number=number) for number in (1, 2)] == ["kept 1", "kept 2"]


def test_codes_keep_their_leading_zeros() -> None:
    codes = [SECRETS.code_of(bytes([n]) * 32) for n in range(64)]

    assert {len(code) for code in codes} == {8}
    assert any(code.startswith("0") for code in codes)
    assert all(code.isascii() and code.isdigit() for code in codes)


def test_derived_secrets_differ_if_any_input_differs() -> None:
    one, other = b"1" * 32, b"2" * 32
    secrets = {
        SECRETS.secret_of(one, "key"),
        SECRETS.secret_of(other, "key"),
        SECRETS.secret_of(one, "another"),
    }
    keys = {
        SECRETS.key_of(SignupId(1), one, "secret"),
        SECRETS.key_of(SignupId(1), other, "secret"),
        SECRETS.key_of(SignupId(2), one, "secret"),
        SECRETS.key_of(SignupId(1), one, "another"),
    }

    assert (len(secrets), len(keys)) == (3, 4)
    assert all(is_well_formed(CredentialKind.APPLICATION_SECRET, each) for each in secrets)
    assert all(is_well_formed(CredentialKind.API_KEY, each) for each in keys)


def test_a_key_has_a_name_of_64_characters_at_most() -> None:
    assert NAME_LENGTH_MAX == 64


def test_the_number_for_no_user_is_0_and_no_hash_is_as_long_as_a_hash() -> None:
    assert NO_USER == 0
    assert len(NO_HASH) == len(SECRETS.hash("a text"))


def test_messages_name_the_time_to_wait_and_the_state_of_an_application() -> None:
    assert str(TooManyAttempts(7)) == "Too many attempts: wait 7 seconds."
    assert str(TooManyAttempts(1)) == "Too many attempts: wait 1 second."
    assert [STANDINGS[state] for state in ApplicationState] == [
        "awaits the confirmation of its e-mail address",
        "awaits approval",
        "was approved",
        "was rejected",
        "has its key already",
    ]
