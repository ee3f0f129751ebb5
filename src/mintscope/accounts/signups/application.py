"""Applications for API keys of the beta: their states, and the sign-up form.

awaiting_confirmation --address confirmed--> awaiting_approval
awaiting_confirmation | awaiting_approval --review--> approved | rejected
approved | rejected --review undone, before any key--> awaiting_confirmation | awaiting_approval
approved --secret exchanged--> key_issued --administrator resets--> approved
awaiting_confirmation --72 h, or "this was not me"--> deleted, the address is free again
any state --administrator or owner deletes--> deleted, the address is free again
"""

import hmac
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, TypedDict

from mintscope.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.accounts.keys.scope import Scope, UnknownScope, parse_scopes
from mintscope.kit.audit import UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import FieldMessage, InvalidFields
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, MINUTE_MS

SignupId = NewType("SignupId", int)

MOTIVATION_LENGTH_MAX: Final = 4_000
HANDLE_LENGTH_MAX: Final = 64
NOTE_LENGTH_MAX: Final = 2_000
REDELIVERY_MS: Final = 10 * MINUTE_MS  # how long a repeated request gets the lost answer
LAPSE_MS: Final = 3 * DAY_MS  # how long an application waits for its confirmation
UNDO_MS: Final = MINUTE_MS  # how long a decision can be undone


class UserType(StrEnum):
    """The role that an applicant states in the form."""

    TRADER = "trader"
    PROVIDER = "provider"
    BOTH = "both"


class ApplicationState(StrEnum):
    """The states of an application."""

    AWAITING_CONFIRMATION = "awaiting_confirmation"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    REJECTED = "rejected"
    KEY_ISSUED = "key_issued"


UNDECIDED: Final = frozenset(
    {ApplicationState.AWAITING_CONFIRMATION, ApplicationState.AWAITING_APPROVAL}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A valid sign-up form; *asked_scopes* are the scopes that were last requested for the key."""

    email: EmailAddress
    telegram: str | None
    twitter: str | None
    user_type: UserType
    motivation: str
    asked_scopes: frozenset[Scope] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application in its current state.

    scopes        the scopes that an administrator granted, besides the read scopes; empty before a
                  decision
    decided_by    the audit-log name of the reviewer
    note          the administrator's note, never shown to the applicant
    user_removed  whether the account that owned the application's key was removed
    asked_at      the time when the key requested further scopes; None: no request awaits a decision
    asked_why     the reason that the request of the key states
    """

    signup_id: SignupId
    form: Form
    state: ApplicationState
    applied_at: UnixMs
    confirmed_at: UnixMs | None
    decided_at: UnixMs | None
    decided_by: str | None
    scopes: frozenset[Scope]
    note: str
    issued_at: UnixMs | None
    user_removed: bool
    asked_at: UnixMs | None = None
    asked_why: str = ""

    @property
    def is_undecided(self) -> bool:
        """Whether the application, or a request of its key for scopes, awaits a decision."""
        return self.state in UNDECIDED or self.asked_at is not None

    @property
    def is_of_scopes(self) -> bool:
        """Whether the newest decision was about scopes that the issued key had requested."""
        is_issued = self.state is ApplicationState.KEY_ISSUED and self.issued_at is not None
        # The approval came before the key, decisions on scopes come after it.
        return is_issued and (self.decided_at or 0) > (self.issued_at or 0)

    def can_be_undone(self, now: UnixMs) -> bool:
        """Return whether the newest decision on the application can still be undone at *now*."""
        if self.decided_at is None or now - self.decided_at >= UNDO_MS:
            return False
        if self.is_of_scopes:
            return not self.user_removed
        return self.state in {ApplicationState.APPROVED, ApplicationState.REJECTED}

    def has_lapsed(self, now: UnixMs) -> bool:
        """Return whether the time to confirm the application is over at *now*."""
        is_waiting = self.state is ApplicationState.AWAITING_CONFIRMATION
        return is_waiting and self.applied_at <= now - LAPSE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptApplication:
    """An application with the hashes and nonces of its secrets.

    secret_nonce     the application secret is derived from it and the redelivery key
    signup_redeem    the hash of the redelivery key of the signup; None: the signup had none
    owner            the user that the key belongs to; None before the first exchange
    key_nonce        the API key is derived from it and the application secret; None: no key exists
    exchange_redeem  the hash of the redelivery key of the exchange; None: the exchange had none
    """

    application: Application
    secret_hash: CredentialHash
    secret_nonce: bytes
    signup_redeem: CredentialHash | None
    owner: UserId | None
    key_nonce: bytes | None
    exchange_redeem: CredentialHash | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """An application to store; its fields are described at KeptApplication."""

    form: Form
    secret_hash: CredentialHash
    secret_nonce: bytes
    signup_redeem: CredentialHash | None
    at: UnixMs


class ApplicationChanges(TypedDict, total=False):
    """The columns of an application that an update can change."""

    state: ApplicationState
    confirmed_at: UnixMs
    decided_at: UnixMs
    decided_by: str
    scopes: frozenset[Scope]
    note: str
    user: UserId
    issued_at: UnixMs | None
    key_nonce: bytes | None
    exchange_redeem: CredentialHash | None
    asked_scopes: frozenset[Scope]
    asked_at: UnixMs | None
    asked_why: str


def is_sent_again(
    first: CredentialHash | None, again: CredentialHash | None, *, after_ms: int
) -> bool:
    """Return whether a request repeats an earlier one, less than REDELIVERY_MS after it.

    first      the hash of the redelivery key of the earlier request; None: it had none
    again      the hash of the redelivery key of the later request; None: it has none
    after_ms   milliseconds between the two requests
    """
    return (
        first is not None
        and again is not None
        and hmac.compare_digest(first, again)
        and after_ms < REDELIVERY_MS
    )


def subject_of(signup_id: SignupId) -> str:
    """Return the name of an application in the audit log."""
    return f"application:{signup_id}"


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
    """Return the valid form in *fields*.  Raises InvalidFields, which lists every mistake."""
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
    """Reads the fields of a sign-up form; the results are valid unless `expect_sound` raises."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._messages: list[FieldMessage] = []

    def expect_sound(self) -> None:
        """Raise InvalidFields if any field read so far was refused."""
        if self._messages:
            raise InvalidFields(self._messages)

    def text(self, name: str) -> str:
        """Return the text of the required field *name*, without further checks."""
        return self._required(name) or ""

    def email(self, name: str) -> EmailAddress:
        """Return the e-mail address in the required field *name*."""
        text = self._required(name)
        try:
            return EmailAddress("") if text is None else parse_email(text)
        except UnusableEmailAddress as flaw:
            self._refuse(name, str(flaw))
            return EmailAddress("")

    def handle(self, name: str) -> str | None:
        """Return the line of text in the optional field *name*, trimmed; None if it is blank."""
        text = (self._text(name) or "").strip()
        if len(text) > HANDLE_LENGTH_MAX:
            self._refuse(
                name, f"expected at most {HANDLE_LENGTH_MAX} characters; there were {len(text)}"
            )
        elif not text.isprintable():
            self._refuse(name, "expected one line of text; it holds control characters")
        return text or None

    def user_type(self, name: str) -> UserType:
        """Return the role that the applicant states in the required field *name*."""
        text = self._required(name)
        if text in set(UserType):
            return UserType(text)
        if text is not None:
            known = ", ".join(UserType)
            self._refuse(name, f"expected one of {known}; was {text[:SHOWN_MAX]!r}")
        return UserType.BOTH

    def motivation(self, name: str) -> str:
        """Return the text of the required field *name*, trimmed; it may have several lines."""
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
        """Return the scopes in the optional field *name*."""
        value = self._fields.get(name)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._refuse(name, f"expected a list of scopes among {', '.join(Scope)}")
            return frozenset()
        try:
            # Cut, because the error quotes the text; the names of all scopes are shorter.
            return parse_scopes(each[:SHOWN_MAX] for each in value)
        except UnknownScope as flaw:
            self._refuse(name, str(flaw))
            return frozenset()

    def _required(self, name: str) -> str | None:
        """Return the text of a required field; None if the field was refused."""
        if self._fields.get(name) is None:
            self._refuse(name, MISSING)
        return self._text(name)

    def _text(self, name: str) -> str | None:
        """Return the text of a field; None if the field is missing, null or refused."""
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
    """Return whether *sign* is forbidden in a multi-line text: a control or surrogate character."""
    return sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs"}
