"""The bodies of the account endpoints, field for field as in the specification."""

from typing import Annotated, Final, Literal

import msgspec

from mintscope.base.primitives import about
from mintscope.core.accounts.application import (
    HANDLE_LENGTH_MAX,
    MOTIVATION_LENGTH_MAX,
    ApplicationState,
    UserType,
)
from mintscope.core.accounts.email_address import EMAIL_LENGTH_MAX
from mintscope.core.accounts.keys.own_key import WHY_LENGTH_MAX
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.secrets import CODE_DIGITS
from mintscope.edges.api.wire import Wire

EXAMPLE_SECRET: Final = "svc_app_" + "0123456789abcdef" * 4
EXAMPLE_KEY: Final = "svc_live_" + "0123456789abcdef" * 5

# One line that is printable, or none; a text without control characters, which is not blank.
LINE: Final = r"^\s*(?:[^\p{C}\p{Z}]| )*\s*$"
PROSE: Final = (
    r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f]"
    r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
)

EmailText = Annotated[
    str,
    msgspec.Meta(
        max_length=EMAIL_LENGTH_MAX,
        description="The mailbox of the applicant.",
        extra_json_schema={"format": "email"},
        examples=["agent@example.org"],
    ),
]
SecretText = Annotated[
    str,
    msgspec.Meta(
        pattern="^svc_app_[0-9a-f]{64}$",
        description="The secret of the application.",
        examples=[EXAMPLE_SECRET],
    ),
]
CodeText = Annotated[
    str,
    msgspec.Meta(
        pattern=f"^[0-9]{{{CODE_DIGITS}}}$",
        description="The code that the e-mail holds.",
        examples=["12345678"],
    ),
]
Handle = Annotated[
    Annotated[
        str,
        msgspec.Meta(max_length=HANDLE_LENGTH_MAX, extra_json_schema={"pattern": LINE}),
    ]
    | None,
    about("The name of the applicant there, or null.", "@agent"),
]
Motivation = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MOTIVATION_LENGTH_MAX,
        description="Purpose of the key, for the administrator who reviews it.",
        examples=["I trade by myself."],
        extra_json_schema={"pattern": PROSE},
    ),
]
Done = Annotated[bool, about("Always true.", True)]  # noqa: FBT003 - an example
Text = Annotated[str, about("The next step, in a sentence.", "Exchange the secret for the key.")]
Scopes = Annotated[list[Scope], about("Scopes of the key.")]
KeyHint = Annotated[str, about("The end of the key, to recognise it.", "a3f9")]
UserName = Annotated[str, about("The name of the account.", "agent-7f3a")]
UserNumber = Annotated[int, about("The number of the account.", 7)]


class BetaSignup(Wire, kw_only=True):
    """An application for an API key."""

    email: EmailText
    telegram: Handle = None
    twitter: Handle = None
    user_type: Annotated[UserType, about("The role of the applicant here.")]
    motivation: Motivation
    scopes: Annotated[
        list[Scope],
        about(
            "Scopes of the key beside reading: `trade:write` buys and deposits"
            " credits, `signals:write` makes alerts, `groups:write` watchlists, `wallets:write`"
            " links wallets.",
            ["trade:write"],
        ),
    ] = msgspec.field(default_factory=list)


class BetaSignedUp(Wire, kw_only=True):
    """The application, and its secret, which is shown once."""

    success: Done = True
    signup_id: Annotated[int, about("The number of the application.", 12)]
    application_secret: Annotated[str, about("Its secret, shown once.", EXAMPLE_SECRET)]
    instructions: Annotated[str, about("The next step.", "Confirm the mailbox.")]


class Credentials(Wire):
    """An application and its secret."""

    email: EmailText
    application_secret: SecretText


class Confirmation(Credentials):
    """The code that the e-mail holds."""

    code: CodeText


class Confirmed(Wire, kw_only=True):
    """The mailbox is confirmed."""

    success: Done = True
    message: Text


class Standing(Wire, kw_only=True):
    """How far an application is."""

    success: Done = True
    state: Annotated[ApplicationState, about("Where it stands.")]
    message: Text


class Exchanged(Wire, kw_only=True):
    """The API key, which is shown once."""

    status: Annotated[str, about("Always ok.", "ok")] = "ok"
    api_key: Annotated[str, about("The key, shown once.", EXAMPLE_KEY)]
    user_id: UserNumber
    username: UserName
    key_hint: KeyHint
    scopes: Scopes
    message: Text


class Me(Wire, kw_only=True):
    """The owner of an API key, and its scopes."""

    user_id: UserNumber
    username: UserName
    key_id: Annotated[int, about("The number of the key.", 3)]
    key_name: Annotated[str, about("The name its owner gave it.", "agent")]
    key_hint: KeyHint
    scopes: Scopes
    created_at: Annotated[int, about("When it was made, Unix seconds.", 1_763_460_000)]
    expires_at: Annotated[int | None, about("When it ends, Unix seconds; null: never.", None)]
    last_used_at: Annotated[
        int | None, about("When it was last used, Unix seconds; null: never.", 1_763_463_600)
    ]
    scopes_asked_for: Annotated[
        list[Scope] | msgspec.UnsetType,
        about("Scopes that await the decision of an administrator.", ["trade:write"]),
    ] = msgspec.UNSET


class KeyRotation(Wire, forbid_unknown_fields=True):
    """The body of a rotation of a key."""

    overlap: Annotated[
        Literal["1h", "24h", "7d"],
        about("How long the old key stays valid beside the new one.", "1h"),
    ] = "1h"


class RotatedKeyAnswer(Wire, kw_only=True):
    """The key that replaces another one; it is shown once."""

    api_key: Annotated[str, about("The new key, shown once.", EXAMPLE_KEY)]
    key_id: Annotated[int, about("The number of the new key.", 4)]
    key_hint: KeyHint
    scopes: Scopes
    expires_at: Annotated[
        int | None,
        about("When the new key ends, Unix seconds, as the old one would; null: never.", None),
    ]
    before_ends_at: Annotated[
        int, about("When the key that was sent ends, Unix seconds.", 1_763_463_600)
    ]


class RevokedKey(Wire):
    """The key that was revoked."""

    key_id: Annotated[int, about("The number of the key.", 3)]


class AskedScopes(Wire, forbid_unknown_fields=True, kw_only=True):
    """The scopes that a key asks for."""

    scopes: Annotated[list[Scope], about("The scopes to ask for.", ["trade:write"])]
    motivation: Annotated[
        str,
        msgspec.Meta(
            max_length=WHY_LENGTH_MAX,
            description="Purpose, for the administrator who reviews it.",
            examples=["To buy credits when they run low."],
        ),
    ] = ""


class ScopesAsked(Wire, kw_only=True):
    """The scopes that await a decision, and the next step."""

    scopes_asked_for: Annotated[
        list[Scope], about("The requested scopes that the key lacks.", ["trade:write"])
    ]
    message: Text
