"""The second step of sign-in: after the right password, a code or a passkey."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass

from mintscope.accounts.mail.email import EmailKind, tell_owner
from mintscope.accounts.people.factor_rows import (
    HalfSignIn,
    Passkey,
    PasskeyRefused,
    PasskeyVerifier,
)
from mintscope.accounts.people.factors import (
    CodeLimit,
    FactorState,
    WrongCode,
    accept_code,
    state_of,
)
from mintscope.accounts.people.rows import AccountRows, AccountStore
from mintscope.accounts.people.secrets import AccountSecrets
from mintscope.accounts.people.session import Browser, NewSession, draw_cookie
from mintscope.accounts.people.user import keep_session
from mintscope.kit.audit import UserId, note, user_actor
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting sign-in: the person's factors, and the passkey request if there is one."""

    state: FactorState
    question: str | None


@dataclass(kw_only=True, eq=False, repr=False)
class SecondStep:
    """Completes sign-ins by a second factor; a ticket names the sign-in for ten minutes.

    Raises ServiceUnavailable.
    """

    store: AccountStore
    secrets: AccountSecrets
    verifier: PasskeyVerifier | None
    limits: InitVar[Limits]
    clock: Clock
    entropy: Callable[[int], bytes]

    def __post_init__(self, limits: Limits) -> None:
        self._code_limit = CodeLimit(limits)

    async def waiting(self, ticket: str) -> Waiting | None:
        """Return the sign-in waiting for its second step; None if it ended or never began."""
        half = await self._find(ticket)
        if half is None:
            return None
        state = await self.store.read(lambda rows: state_of(rows, half.user_id))
        question = None
        if self.verifier is not None and state.passkeys:
            question = self.verifier.authentication(self._challenge(ticket), state.passkeys)
        return Waiting(state, question)

    async def by_code(self, ticket: str, code: str, browser: Browser) -> str | None:
        """Return the cookie of a new session if *code* is an app code or a recovery code.

        None: the sign-in is over.  Raises WrongCode, TooManyAttempts.
        """
        half = await self._find(ticket)
        if half is None:
            return None
        await self._code_limit.begin(half.user_id)
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        now = self.clock.now()
        try:
            is_done = await self.store.transact(
                lambda rows: _by_code(rows, half, code, session, self.secrets, now)
            )
        except ServiceUnavailable:
            await self._code_limit.forgive(half.user_id)
            raise
        await self._code_limit.forgive(half.user_id)
        return cookie if is_done else None

    async def by_passkey(self, ticket: str, answer: str, browser: Browser) -> str | None:
        """Return the cookie of a new session if *answer* holds a passkey's right signature.

        None: the sign-in is over.  Raises PasskeyRefused.
        """
        half = await self._find(ticket)
        if half is None:
            return None
        if self.verifier is None:
            raise PasskeyRefused("this service does not use passkeys")
        credential_id = self.verifier.credential_of(answer)
        passkey = await self.store.read(lambda rows: rows.passkeys.find(credential_id))
        if passkey is None or passkey.user_id != half.user_id:
            raise PasskeyRefused("this passkey does not belong to this account")
        count = self.verifier.authenticated(answer, self._challenge(ticket), passkey)
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        now = self.clock.now()
        is_done = await self.store.transact(
            lambda rows: _by_passkey(rows, half, passkey, count, session, now)
        )
        return cookie if is_done else None

    def _challenge(self, ticket: str) -> bytes:
        return self.secrets.challenge("sign-in", ticket)

    async def _find(self, ticket: str) -> HalfSignIn | None:
        digest = self.secrets.hash(ticket)
        now = self.clock.now()
        half = await self.store.read(lambda rows: rows.sign_ins.find(digest))
        return half if half is not None and half.is_good(now) else None


def _by_code(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    half: HalfSignIn,
    code: str,
    session: NewSession,
    secrets: AccountSecrets,
    at: UnixMs,
) -> bool:
    if not _use(rows, half):
        return False
    left = accept_code(rows, half.user_id, code, secrets, at)
    if left is None:
        raise WrongCode  # undoes the use of the ticket: it may be tried again
    if left >= 0:
        _tell_of_recovery(rows, half.user_id, left, at)
    keep_session(rows, half.user_id, session, at)
    return True


def _by_passkey(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    half: HalfSignIn,
    passkey: Passkey,
    sign_count: int,
    session: NewSession,
    at: UnixMs,
) -> bool:
    if rows.passkeys.find(passkey.credential_id) is None or not _use(rows, half):
        return False
    rows.passkeys.update(passkey.passkey_id, sign_count=sign_count, last_used_at=at)
    keep_session(rows, half.user_id, session, at)
    return True


def _use(rows: AccountRows, half: HalfSignIn) -> bool:
    """Use up the ticket; return False if it was used, or the password has changed."""
    return rows.users.get(half.user_id) is not None and rows.sign_ins.delete(half.sign_in_id)


def _tell_of_recovery(rows: AccountRows, user_id: UserId, left: int, at: UnixMs) -> None:
    kept = rows.users.get(user_id)
    assert kept is not None, "it was read just now"
    note(
        rows.events,
        at,
        user_actor(user_id),
        "used recovery code",
        f"user:{user_id}",
        left=str(left),
    )
    what = f"a recovery code was used to sign in, {left} are left"
    tell_owner(rows.emails, kept.user, EmailKind.SECOND_FACTOR, {"what": what}, at)
