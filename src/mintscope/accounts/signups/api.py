"""Endpoints to apply for access, to get the API key, and to manage it; with their bodies."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from mintscope.accounts.email_address import EMAIL_LENGTH_MAX, EmailAddress
from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.keys import WHY_LENGTH_MAX, OwnKeys
from mintscope.accounts.keys.scope import AREAS, Scope, in_order
from mintscope.accounts.secrets import CODE_DIGITS
from mintscope.accounts.signups.application import (
    HANDLE_LENGTH_MAX,
    MOTIVATION_LENGTH_MAX,
    ApplicationState,
    FieldReader,
    UserType,
    parse_form,
)
from mintscope.accounts.signups.signups import Exchanges, IssuedKey, Signups
from mintscope.api.discovery.operation import CREDENTIAL, KEY, PUBLIC_ROUTE, Operation
from mintscope.api.failures import BOTH_SHAPES, GENERAL, MESSAGES_ONLY
from mintscope.api.gate import idempotency_key
from mintscope.api.wire import Wire, success
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CredentialKind, has_form
from mintscope.kit.http.application import evenly
from mintscope.kit.http.rate_limit import AddressLimit, RateLimit
from mintscope.kit.http.request import ClientAddresses, Request, UnreadableBody, parse_object
from mintscope.kit.http.response import NO_STORE, Response
from mintscope.kit.limits import Limit, Limits
from mintscope.kit.primitives import UnixMs, about

EXAMPLE_SECRET: Final = "svc_app_" + "0123456789abcdef" * 4
EXAMPLE_KEY: Final = "svc_live_" + "0123456789abcdef" * 5

# LINE matches a printable or empty line, PROSE a text that is not blank and has no control
# characters except tabs and line breaks.
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
        description="The code in the e-mail.",
        examples=["12345678"],
    ),
]
Handle = Annotated[
    Annotated[
        str,
        msgspec.Meta(max_length=HANDLE_LENGTH_MAX, extra_json_schema={"pattern": LINE}),
    ]
    | None,
    about("The applicant's name on that platform, or null.", "@agent"),
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
KeyHint = Annotated[str, about("The last characters of the key, to recognise it.", "a3f9")]
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
            "Scopes of the key besides reading: `trade:write` buys and deposits credits,"
            " `signals:write` creates alerts, `groups:write` creates watchlists, `wallets:write`"
            " links wallets.",
            ["trade:write"],
        ),
    ] = msgspec.field(default_factory=list)


class BetaSignedUp(Wire, kw_only=True):
    """The application, and its secret, which is shown once."""

    success: Done = True
    signup_id: Annotated[int, about("The number of the application.", 12)]
    application_secret: Annotated[
        str, about("The secret of the application, shown once.", EXAMPLE_SECRET)
    ]
    instructions: Annotated[str, about("The next step.", "Confirm the mailbox.")]


class Credentials(Wire):
    """An application and its secret."""

    email: EmailText
    application_secret: SecretText


class Confirmation(Credentials):
    """An application, its secret, and the code in the confirmation e-mail."""

    code: CodeText


class Confirmed(Wire, kw_only=True):
    """The e-mail address of an application is confirmed."""

    success: Done = True
    message: Text


class Standing(Wire, kw_only=True):
    """The state of an application."""

    success: Done = True
    state: Annotated[ApplicationState, about("Where it stands.")]
    message: Text


class Exchanged(Wire, kw_only=True):
    """The API key of an application, which is shown once."""

    status: Annotated[str, about("Always ok.", "ok")] = "ok"
    api_key: Annotated[str, about("The key, shown once.", EXAMPLE_KEY)]
    user_id: UserNumber
    username: UserName
    key_hint: KeyHint
    scopes: Scopes
    message: Text


class Me(Wire, kw_only=True):
    """The owner of an API key, and the scopes of the key."""

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
    """The body of a request that replaces an API key with a new one."""

    overlap: Annotated[
        Literal["1h", "24h", "7d"],
        about("How long the old key stays valid beside the new one.", "1h"),
    ] = "1h"


class RotatedKeyAnswer(Wire, kw_only=True):
    """The API key that replaces the rotated key; it is shown once."""

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
    """The scopes that a key requests."""

    scopes: Annotated[list[Scope], about("The scopes to request.", ["trade:write"])]
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


class ExchangeLimit:
    """Counts attempts at an exchange: by e-mail address if the secret is correct.

    Attempts with a wrong secret are counted by e-mail address and client, so a client without the
    secret cannot use up the attempts of the owner of the address.  The two counters are separate,
    so strangers cannot displace the counts of owners from memory either.
    """

    def __init__(self, limit: Limit, limits: Limits) -> None:
        self._limit = limit
        self._right = RateLimit(limits.limiter(limit))
        self._other = RateLimit(limits.limiter(limit, window=f"{limit.name}, wrong secret"))

    async def pass_through(
        self, request: Request, email: EmailAddress, *, address: str, is_right: bool
    ) -> None:
        """Count an attempt at an exchange.  Raises RateLimited if there were too many.

        address    IP address of the client
        is_right   whether the secret is correct
        """
        try:
            if is_right:
                await self._right.pass_through(request, email)
            else:
                await self._other.pass_through(request, f"{email} {address}")
        except errors.RateLimited as early:
            # The specification has a fixed `retryAfter`, not the time that is left.
            raise errors.RateLimited(self._limit.window_s) from early


async def read_fields(request: Request) -> Mapping[str, object]:
    """Return the fields of the JSON object in the body.  Raises InvalidFields, PayloadTooLarge."""
    try:
        return parse_object(request, await request.body())
    except UnreadableBody as flaw:
        raise errors.InvalidFields([errors.FieldMessage(GENERAL, str(flaw))]) from flaw


FORM: Final = (errors.ErrorCode.VALIDATION_ERROR, errors.ErrorCode.PAYLOAD_TOO_LARGE, *PUBLIC_ROUTE)
INSTRUCTIONS: Final = (
    "Store applicationSecret where you keep passwords: it is shown only here and is exchanged once"
    " for the API key. An e-mail with a code is on its way to the mailbox: confirm it with POST"
    " /api/auth/confirm-email, or by the e-mail's link. An administrator then reviews the"
    " application, usually within 24 to 48 hours; POST /api/auth/application-status has its"
    " state. Once approved, POST /api/auth/exchange-secret, at most once every 5 seconds."
)
CONFIRMED: Final = "The mailbox is confirmed; the application awaits an administrator's review."
KEY_SHOWN: Final = (
    "Store the API key where you keep passwords: it cannot be shown again, and the application"
    " secret is void. Send it as Authorization: Bearer <apiKey>, for example to GET /v1/me."
)
STANDINGS: Final = {
    ApplicationState.AWAITING_CONFIRMATION: "Confirm the mailbox with the code of the e-mail.",
    ApplicationState.AWAITING_APPROVAL: "An administrator is yet to review the application.",
    ApplicationState.APPROVED: "Exchange the secret for the API key.",
    ApplicationState.REJECTED: "The application was rejected.",
    ApplicationState.KEY_ISSUED: "The API key was issued; it cannot be shown again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRoutes:
    """Handlers for requests of agents.

    everything   the limit of all requests from a client address
    signups      the limit of applications from a client address
    exchanges    the limit of attempts to exchange a secret
    """

    signup: Signups
    exchange: Exchanges
    own_keys: OwnKeys
    gate: KeyGate
    everything: AddressLimit
    signups: AddressLimit
    exchanges: ExchangeLimit
    addresses: ClientAddresses
    clock: Clock

    @Operation(
        "POST",
        "/api/public/beta-signup",
        BetaSignedUp,
        takes_key=True,
        refusals=(*FORM, errors.ErrorCode.DUPLICATE_APPLICATION),
        status=201,
        body=BetaSignup,
        error_format=BOTH_SHAPES,
    )
    async def apply_for_key(self, request: Request) -> Response:
        """Apply for an API key.

        Takes an application for an API key and returns its secret, shown once. An e-mail with a
        code goes to the mailbox; an administrator reviews the application once it is confirmed,
        usually within 24 to 48 hours. Costs nothing. With an Idempotency-Key, a lost response is
        returned again for ten minutes.
        """
        # The form is checked before the limit of applications, so that mistakes do not count.
        await self.everything.pass_through(request)
        form = parse_form(await read_fields(request))
        key = _redelivery_key(request)
        await self.signups.pass_through(request)
        try:
            made = await self.signup.apply(form, redelivery_key=key)
        # This answer shows that the address has an application, so it counts against the limit.
        except errors.DuplicateApplication:
            raise
        # Including a cancellation, if the client leaves.
        except BaseException:
            await self.signups.give_back(request)
            raise
        answer = BetaSignedUp(
            signup_id=made.signup_id, application_secret=made.secret, instructions=INSTRUCTIONS
        )
        return _response(request, 201, answer)

    @Operation(
        "POST",
        "/api/auth/confirm-email",
        Confirmed,
        refusals=(*FORM, errors.ErrorCode.INVALID_CREDENTIALS),
        body=Confirmation,
        error_format=BOTH_SHAPES,
    )
    async def confirm_email(self, request: Request) -> Response:
        """Confirm the mailbox of an application with the code that was sent there.

        Confirms the mailbox of an application by the code of the e-mail; the application then
        awaits its review. Costs nothing.
        """
        await self.everything.pass_through(request)
        fields = FieldReader(await read_fields(request))
        email = fields.email("email")
        secret = fields.text("applicationSecret")
        code = fields.text("code")
        fields.expect_sound()
        await evenly(self.signup.confirm_by_code(email, secret, code))
        return _response(request, 200, Confirmed(message=CONFIRMED))

    @Operation(
        "POST",
        "/api/auth/application-status",
        Standing,
        refusals=(*FORM, errors.ErrorCode.INVALID_CREDENTIALS, errors.ErrorCode.ACCOUNT_NOT_FOUND),
        body=Credentials,
        error_format=BOTH_SHAPES,
    )
    async def get_application_status(self, request: Request) -> Response:
        """The state of an application.

        Returns the state of an application, without spending an attempt at the exchange. Costs
        nothing.
        """
        await self.everything.pass_through(request)
        email, secret = await _credentials(request)
        state = await evenly(self.signup.state(email, secret))
        return _response(request, 200, Standing(state=state, message=STANDINGS[state]))

    @Operation(
        "POST",
        "/api/auth/exchange-secret",
        Exchanged,
        takes_key=True,
        refusals=(
            *FORM,
            errors.ErrorCode.INVALID_CREDENTIALS,
            errors.ErrorCode.NOT_APPROVED,
            errors.ErrorCode.INVALID_SECRET_FORMAT,
            errors.ErrorCode.ACCOUNT_NOT_FOUND,
            errors.ErrorCode.KEY_ALREADY_EXISTS,
        ),
        body=Credentials,
        error_format=MESSAGES_ONLY,
    )
    async def exchange_secret(self, request: Request) -> Response:
        """Exchange the secret of an approved application for the API key, once.

        Returns the API key of an approved application, once: its secret is void from then on. At
        most one attempt in 5 seconds. Costs nothing. With an Idempotency-Key, a lost response is
        returned again for ten minutes.
        """
        # The secret is checked first, in the same time for every address; then the limit counts;
        # then the outcome is returned.  Neither the time nor a refusal shows a stranger whether an
        # address has an application.
        await self.everything.pass_through(request)
        email, secret = await _credentials(request)
        key = _redelivery_key(request)
        issued = await evenly(self._exchange(request, email, secret, key))
        answer = Exchanged(
            api_key=issued.api_key,
            user_id=issued.line.user_id,
            username=issued.username,
            key_hint=issued.line.hint,
            scopes=in_order(issued.line.scopes),
            message=KEY_SHOWN + _what_it_lacks(issued.line.scopes),
        )
        return _response(request, 200, answer)

    async def _exchange(
        self, request: Request, email: EmailAddress, secret: str, key: str | None
    ) -> IssuedKey:
        application = await self.exchange.recognise(email, secret)
        is_right = application is not None
        address = self.addresses.key(request.scope)
        await self.exchanges.pass_through(request, email, address=address, is_right=is_right)
        if not has_form(CredentialKind.APPLICATION_SECRET, secret):
            raise errors.InvalidSecretFormat
        if application is None:
            raise errors.InvalidCredentials
        return await self.exchange.exchange(application, secret, redelivery_key=key)

    @Operation("GET", "/v1/me", Me, refusals=(*CREDENTIAL, *PUBLIC_ROUTE), proofs=KEY)
    async def get_me(self, request: Request) -> Response:
        """The owner and the rights of an API key.

        Returns the owner of the API key in Authorization, and its scopes. Costs nothing.
        """
        holder = await self.gate.admit(request)
        line = holder.key
        asked = await self.own_keys.asked(holder)
        me = Me(
            user_id=line.user_id,
            username=holder.username,
            key_id=line.key_id,
            key_name=line.name,
            key_hint=line.hint,
            scopes=in_order(line.scopes),
            created_at=line.created_at // 1000,
            expires_at=_seconds(line.expires_at),
            last_used_at=_seconds(line.last_used_at),
            scopes_asked_for=in_order(asked) if asked else msgspec.UNSET,
        )
        return success(request, me, at=self.clock.now(), names_request=True)


async def _credentials(request: Request) -> tuple[EmailAddress, str]:
    fields = FieldReader(await read_fields(request))
    email = fields.email("email")
    secret = fields.text("applicationSecret")
    fields.expect_sound()
    return email, secret


def _redelivery_key(request: Request) -> str | None:
    try:
        return idempotency_key(request)
    except errors.BadRequest as flaw:
        raise errors.InvalidFields([errors.FieldMessage(GENERAL, str(flaw))]) from flaw


def _response(request: Request, status: int, answer: Wire) -> Response:
    request.response_headers.append(NO_STORE)
    return Response(status, msgspec.json.encode(answer))


def _seconds(at: UnixMs | None) -> int | None:
    return None if at is None else at // 1000


def _what_it_lacks(scopes: Collection[Scope]) -> str:
    """Return a text about the write scopes missing in *scopes*; "" if no scope is missing."""
    missing = [(f"{area.name}:write", area.write.rstrip(".")) for area in AREAS]
    lacking = [f"{scope} ({does})" for scope, does in missing if Scope(scope) not in scopes]
    if not lacking:
        return ""
    return (
        f" It lacks the scopes {', '.join(lacking)}: POST /v1/me/key/scopes asks for them. A person"
        " who owns the account makes a key that has them on the web site."
    )
