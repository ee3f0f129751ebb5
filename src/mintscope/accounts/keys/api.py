"""The handlers under /v1/me/key: operations on the API key of the request."""

from dataclasses import dataclass
from typing import Final

from mintscope.accounts.keys.key import KEYS_PER_DAY_MAX, KEYS_PER_USER_MAX, OVERLAPS_MS
from mintscope.accounts.keys.key_gate import NOT_IN_FORCE, KeyGate
from mintscope.accounts.keys.keys import KeyDenied, OwnKeys, TooManyKeys
from mintscope.accounts.keys.scope import in_order
from mintscope.accounts.signups.api import (
    AskedScopes,
    KeyRotation,
    RevokedKey,
    RotatedKeyAnswer,
    ScopesAsked,
)
from mintscope.api.discovery.operation import CREDENTIAL, KEY, PUBLIC_ROUTE, Operation
from mintscope.api.gate import idempotency_key
from mintscope.api.wire import read_body, success
from mintscope.kit.clock import Clock
from mintscope.kit.errors import (
    BadRequest,
    ErrorCode,
    IdempotencyKeyUsed,
    InvalidToken,
    NothingToRotate,
    OwnerOnly,
)
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response

OWN_KEY: Final = (*CREDENTIAL, *PUBLIC_ROUTE)
OWN_WITH_BODY: Final = (*OWN_KEY, ErrorCode.BAD_REQUEST, ErrorCode.PAYLOAD_TOO_LARGE)
ROTATED_BEFORE: Final = (
    "expected a key that was not rotated; this one was, and its new key stays valid. The"
    " Idempotency-Key of that rotation returns the new key again."
)
KEY_USED: Final = (
    "The Idempotency-Key was sent with another overlap before; this request rotated nothing."
)
TOO_MANY_KEYS: Final = (
    f"expected at most {KEYS_PER_USER_MAX} active keys of an account, and {KEYS_PER_DAY_MAX} that"
    " are made in a day: revoke one, or try again tomorrow"
)
OWNER_MAKES: Final = (
    "This key belongs to the account of a person, who signs in and makes a key with other scopes"
    " under Settings > API keys."
)
REVIEWED: Final = (
    "An administrator reviews this, usually within 24 to 48 hours; GET /v1/me lists the scopes of"
    " the key. They do not change until the decision."
)
NOTHING_LACKING: Final = "The key has all of these scopes."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKeyRoutes:
    """Handlers for operations on the API key that authorizes the request."""

    gate: KeyGate
    own: OwnKeys
    clock: Clock

    @Operation(
        "POST",
        "/v1/me/key/rotate",
        RotatedKeyAnswer,
        takes_key=True,
        refusals=(
            *OWN_WITH_BODY,
            ErrorCode.NOTHING_TO_ROTATE,
            ErrorCode.IDEMPOTENCY_KEY_USED,
        ),
        status=201,
        proofs=KEY,
        body=KeyRotation,
    )
    async def rotate_own_key(self, request: Request) -> Response:
        """Rotate the API key that is sent, which then ends soon.

        Returns another API key, shown once, with the name, scopes, cap, networks and end of the key
        in Authorization, which stays valid for `overlap`: 1h unless the body says 24h or 7d. With
        an Idempotency-Key, a lost answer is returned again while the old key is valid. Costs
        nothing.
        """
        holder = await self.gate.change(request)
        asked = await read_body(request, KeyRotation)
        key = idempotency_key(request)
        try:
            rotated = await self.own.rotate(
                holder,
                request.bearer() or "",
                overlap_ms=OVERLAPS_MS[asked.overlap],
                redelivery_key=key,
            )
        except TooManyKeys as limit:
            raise BadRequest(TOO_MANY_KEYS) from limit
        if rotated is KeyDenied.ROTATED:
            raise NothingToRotate(ROTATED_BEFORE)
        if rotated is KeyDenied.KEY_USED:
            raise IdempotencyKeyUsed(KEY_USED)
        if isinstance(rotated, KeyDenied):
            raise InvalidToken(NOT_IN_FORCE)
        line = rotated.issued.line
        answer = RotatedKeyAnswer(
            api_key=rotated.issued.api_key,
            key_id=line.key_id,
            key_hint=line.hint,
            scopes=in_order(line.scopes),
            expires_at=None if line.expires_at is None else line.expires_at // 1000,
            before_ends_at=rotated.before_ends_at // 1000,
        )
        return success(request, answer, at=self.clock.now(), status=201)

    @Operation("DELETE", "/v1/me/key", RevokedKey, refusals=OWN_KEY, proofs=KEY)
    async def revoke_own_key(self, request: Request) -> Response:
        """Revoke the API key that is sent, at once.

        Revokes the API key in Authorization at once: rotate it first to keep access. Costs nothing.
        """
        # This does not count as a write: a thief of the key who has used up the budget of writes
        # must not prevent the owner from revoking the key.
        holder = await self.gate.admit(request)
        await self.own.revoke(holder)
        answer = RevokedKey(key_id=holder.key.key_id)
        return success(request, answer, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/me/key/scopes",
        ScopesAsked,
        refusals=(*OWN_WITH_BODY, ErrorCode.OWNER_ONLY),
        proofs=KEY,
        body=AskedScopes,
    )
    async def ask_for_scopes(self, request: Request) -> Response:
        """Ask for scopes that the API key lacks.

        Asks the administrators to give the API key in Authorization, and the keys that it is
        rotated into, further scopes. GET /v1/me has its scopes, and in `scopesAskedFor` the
        requested scopes that are undecided. Costs nothing.
        """
        holder = await self.gate.change(request)
        asked = await read_body(request, AskedScopes)
        lacking = await self.own.ask(holder, frozenset(asked.scopes), asked.motivation)
        if isinstance(lacking, KeyDenied):
            raise OwnerOnly(OWNER_MAKES)
        message = REVIEWED if lacking else NOTHING_LACKING
        answer = ScopesAsked(scopes_asked_for=in_order(lacking), message=message)
        return success(request, answer, at=self.clock.now())
