"""An application for beta access: what an agent asks for, and how far it has come.

awaiting_confirmation --mailbox confirmed--> awaiting_approval --review--> approved | rejected
approved --secret exchanged--> key_issued --administrator resets--> approved
awaiting_confirmation --72 h, or "this was not me"--> gone, the address is free again
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.scope import Scope

SignupId = NewType("SignupId", int)

MOTIVATION_LENGTH_MAX: Final = 4_000
HANDLE_LENGTH_MAX: Final = 64
NOTE_LENGTH_MAX: Final = 2_000
LAPSE_MS: Final = 3 * DAY_MS


class UserType(StrEnum):
    """What the applicant wants to be."""

    TRADER = "trader"
    PROVIDER = "provider"
    BOTH = "both"


class ApplicationState(StrEnum):
    """How far an application has come."""

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
    """A signup whose every field has been checked."""

    email: EmailAddress
    telegram: str | None
    twitter: str | None
    user_type: UserType
    motivation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application as it stands.

    email         normalised
    scopes        granted by the administrator, beside the read scopes; empty before a decision
    decided_by    who reviewed it, as the audit log names actors
    note          the administrator's, never shown to the applicant
    user_removed  the account that its key belonged to was removed
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


@dataclass(frozen=True, slots=True)
class KeptApplication:
    """An application and the hash of its secret."""

    application: Application
    secret_hash: CredentialHash
