"""The bodies of the account endpoints, field for field as in the specification."""

from typing import Annotated

import msgspec

from mintscope.core.accounts.application import (
    HANDLE_LENGTH_MAX,
    MOTIVATION_LENGTH_MAX,
    ApplicationState,
    UserType,
)
from mintscope.core.accounts.email_address import EMAIL_LENGTH_MAX
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.secrets import CODE_DIGITS
from mintscope.edges.api.wire import Wire

EmailText = Annotated[
    str, msgspec.Meta(max_length=EMAIL_LENGTH_MAX, description="The mailbox of the applicant.")
]
SecretText = Annotated[str, msgspec.Meta(pattern="^svc_app_[0-9a-f]{64}$")]
CodeText = Annotated[str, msgspec.Meta(pattern=f"^[0-9]{{{CODE_DIGITS}}}$")]
Handle = Annotated[str, msgspec.Meta(max_length=HANDLE_LENGTH_MAX)]
Motivation = Annotated[str, msgspec.Meta(min_length=1, max_length=MOTIVATION_LENGTH_MAX)]


class BetaSignup(Wire, kw_only=True):
    """Body of POST /api/public/beta-signup."""

    email: EmailText
    telegram: Handle | None = None
    twitter: Handle | None = None
    user_type: UserType
    motivation: Motivation


class BetaSignedUp(Wire, kw_only=True):
    """Answer to it; the secret is shown once."""

    success: bool = True
    signup_id: int
    application_secret: str
    instructions: str


class Credentials(Wire):
    """Body of POST /api/auth/exchange-secret and /api/auth/application-status."""

    email: EmailText
    application_secret: SecretText


class Confirmation(Credentials):
    """Body of POST /api/auth/confirm-email: the code is in the e-mail."""

    code: CodeText


class Confirmed(Wire, kw_only=True):
    """Answer to it."""

    success: bool = True
    message: str


class Standing(Wire, kw_only=True):
    """Answer to POST /api/auth/application-status."""

    success: bool = True
    state: ApplicationState
    message: str


class Exchanged(Wire, kw_only=True):
    """Answer to POST /api/auth/exchange-secret; the key is shown once."""

    status: str = "ok"
    api_key: str
    user_id: int
    username: str
    key_hint: str
    scopes: list[Scope]
    message: str


class Me(Wire, kw_only=True):
    """`data` of GET /v1/me: times in Unix seconds; null is never."""

    user_id: int
    username: str
    key_id: int
    key_name: str
    key_hint: str
    scopes: list[Scope]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
