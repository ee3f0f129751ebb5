"""The handlers under /api: how an agent comes to an API key; and /v1/me, where it shows it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.credentials import CredentialKind, has_form
from mintscope.base.errors import (
    BadRequest,
    DuplicateApplication,
    ErrorCode,
    FieldMessage,
    InvalidCredentials,
    InvalidFields,
    InvalidSecretFormat,
)
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import ApplicationState
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.own_key import OwnKeys
from mintscope.core.accounts.keys.scope import AREAS, Scope, in_order
from mintscope.core.accounts.signups.exchange import Exchanges, IssuedKey
from mintscope.core.accounts.signups.form import FieldReader, parse_form
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.api.accounts.fields import read_fields
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.accounts.limits import ExchangeLimit
from mintscope.edges.api.accounts.wire import (
    BetaSignedUp,
    BetaSignup,
    Confirmation,
    Confirmed,
    Credentials,
    Exchanged,
    Me,
    Standing,
)
from mintscope.edges.api.description.operation import CREDENTIAL, KEY, PUBLIC_ROUTE, Operation
from mintscope.edges.api.failures import BOTH_SHAPES, GENERAL, MESSAGES_ONLY
from mintscope.edges.api.wire import Wire, success
from mintscope.edges.api.x402 import idempotency_key
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.constant_time import evenly
from mintscope.edges.server.rate_limit import AddressLimit
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import NO_STORE, Response

FORM: Final = (ErrorCode.VALIDATION_ERROR, ErrorCode.PAYLOAD_TOO_LARGE, *PUBLIC_ROUTE)
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
    """Requests of agents.

    everything   limits all of it by address
    signups      limits by address what makes an application, or finds one there
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
        refusals=(*FORM, ErrorCode.DUPLICATE_APPLICATION),
        status=201,
        body=BetaSignup,
        error_format=BOTH_SHAPES,
    )
    async def apply_for_key(self, request: Request) -> Response:
        """Apply for an API key.

        Takes an application for an API key and returns its secret, shown once. An e-mail with a
        code goes to the mailbox; an administrator reviews the application once it is confirmed,
        usually within 24 to 48 hours. Costs nothing. With an Idempotency-Key, a lost answer is
        given again for ten minutes.
        """
        # The form is checked before the limit of applications counts: mistakes do not count.
        await self.everything.pass_through(request)
        form = parse_form(await read_fields(request))
        key = _redelivery_key(request)
        await self.signups.pass_through(request)
        try:
            made = await self.signup.apply(form, redelivery_key=key)
        except DuplicateApplication:
            raise
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
        refusals=(*FORM, ErrorCode.INVALID_CREDENTIALS),
        body=Confirmation,
        error_format=BOTH_SHAPES,
    )
    async def confirm_email(self, request: Request) -> Response:
        """Confirm the mailbox of an application with the code that was sent there.

        Confirms the mailbox of an application by the code of the e-mail; then it awaits its review.
        Costs nothing.
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
        refusals=(*FORM, ErrorCode.INVALID_CREDENTIALS, ErrorCode.ACCOUNT_NOT_FOUND),
        body=Credentials,
        error_format=BOTH_SHAPES,
    )
    async def get_application_status(self, request: Request) -> Response:
        """How far an application is.

        Returns how far an application is, without spending an attempt at the exchange. Costs
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
            ErrorCode.INVALID_CREDENTIALS,
            ErrorCode.NOT_APPROVED,
            ErrorCode.INVALID_SECRET_FORMAT,
            ErrorCode.ACCOUNT_NOT_FOUND,
            ErrorCode.KEY_ALREADY_EXISTS,
        ),
        body=Credentials,
        error_format=MESSAGES_ONLY,
    )
    async def exchange_secret(self, request: Request) -> Response:
        """Exchange the secret of an approved application for the API key, once.

        Returns the API key of an approved application, once: its secret is void from then on. At
        most one attempt in 5 seconds. Costs nothing. With an Idempotency-Key, a lost answer is
        given again for ten minutes.
        """
        # The secret is checked first, always in the same way; then the limit counts; then the
        # outcome is returned: neither the time nor a refusal shows a stranger who has applied.
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
            raise InvalidSecretFormat
        if application is None:
            raise InvalidCredentials
        return await self.exchange.exchange(application, secret, redelivery_key=key)

    @Operation("GET", "/v1/me", Me, refusals=(*CREDENTIAL, *PUBLIC_ROUTE), proofs=KEY)
    async def get_me(self, request: Request) -> Response:
        """Whose an API key is, and what it allows.

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
    except BadRequest as flaw:
        raise InvalidFields([FieldMessage(GENERAL, str(flaw))]) from flaw


def _response(request: Request, status: int, answer: Wire) -> Response:
    request.response_headers.append(NO_STORE)
    return Response(status, msgspec.json.encode(answer))


def _seconds(at: UnixMs | None) -> int | None:
    return None if at is None else at // 1000


def _what_it_lacks(scopes: Collection[Scope]) -> str:
    """Return what a key with *scopes* cannot do, and how it comes to do that."""
    missing = [(f"{area.name}:write", area.write.rstrip(".")) for area in AREAS]
    lacking = [f"{scope} ({does})" for scope, does in missing if Scope(scope) not in scopes]
    if not lacking:
        return ""
    return (
        f" It lacks the scopes {', '.join(lacking)}: POST /v1/me/key/scopes asks for them. A person"
        " who owns the account makes a key that has them on the web site."
    )
