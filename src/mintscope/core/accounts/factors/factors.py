"""Settings > Second factor: what a person adds, and takes away again."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass

from mintscope.base.clock import Clock
from mintscope.base.limits import Limits
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import note, user_actor
from mintscope.core.accounts.factors.codes import CodeLimit, WrongCode, accept_app_code
from mintscope.core.accounts.factors.passkeys import (
    PasskeyOwner,
    PasskeyRefused,
    PasskeyVerifier,
)
from mintscope.core.accounts.factors.recovery import make_codes, plain
from mintscope.core.accounts.factors.rows import (
    PASSKEYS_MAX,
    App,
    NewPasskey,
    Passkey,
    PasskeyId,
)
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.people.access import drop_factors, end_sessions, expect_session
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.people.taking_back import announce
from mintscope.core.accounts.proof import EVER
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.accounts.user import User, UserId

APP_ADDED = "an authenticator app was added"
APP_REMOVED = "the authenticator app was removed"
PASSKEY_ADDED = "a passkey was added"
PASSKEY_REMOVED = "a passkey was removed"
CODES_RENEWED = "new recovery codes were made"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorState:
    """Second factors of a person; *app* is confirmed, *codes_left* are recovery codes."""

    app: App | None
    passkeys: Sequence[Passkey]
    codes_left: int

    @property
    def is_on(self) -> bool:
        """Whether signing in takes a second factor."""
        return self.app is not None or bool(self.passkeys)


@dataclass(kw_only=True, eq=False, repr=False)
class Factors:
    """Adds and removes second factors; each step is noted, and sent to the person by e-mail.

    The first factor brings ten recovery codes, which go with the last one.  A new factor ends all
    other sessions: they began without it.
    Raises SessionEnded if the session was ended meanwhile, ServiceUnavailable.
    """

    store: AccountStore
    secrets: AccountSecrets
    verifier: PasskeyVerifier | None
    limits: InitVar[Limits]
    clock: Clock
    entropy: Callable[[int], bytes]

    def __post_init__(self, limits: Limits) -> None:
        self._code_limit = CodeLimit(limits)

    async def state(self, session: Session) -> FactorState:
        """Return what the person has."""
        return await self.store.read(lambda rows: state_of(rows, session.user.user_id))

    async def begin_app(self, session: Session) -> None:
        """Draw a secret for an app; it is no factor before a code of it was typed."""
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        await self.store.transact(lambda rows: _begin_app(rows, session, nonce, now))

    async def app_secret(self, session: Session) -> bytes | None:
        """Return the secret that was drawn last; None: its app is confirmed, or there is none."""
        user_id = session.user.user_id
        app = await self.store.read(lambda rows: rows.apps.of_user(user_id))
        if app is None or app.confirmed_at is not None:
            return None
        return self.secrets.app_secret(user_id, app.nonce)

    async def confirm_app(self, session: Session, code: str) -> Sequence[str]:
        """Let the app be a factor; return recovery codes, none if the person had some.

        Raises    WrongCode, TooManyAttempts
        """
        user_id = session.user.user_id
        codes = make_codes(self.entropy)
        now = self.clock.now()
        await self._code_limit.begin(user_id)
        nonce = self.entropy(NONCE_BYTES)
        made = await self.store.transact(
            lambda rows: _confirm_app(rows, session, code, codes, self.secrets, nonce, now)
        )
        await self._code_limit.forgive(user_id)
        return codes if made else []

    async def remove_app(self, session: Session) -> None:
        """Remove the app."""
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        await self.store.transact(lambda rows: _remove_app(rows, session, nonce, now))

    async def renew_codes(self, session: Session) -> Sequence[str]:
        """Return ten new recovery codes instead of those of before; none without a factor."""
        codes = make_codes(self.entropy)
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        made = await self.store.transact(
            lambda rows: _renew(rows, session, codes, self.secrets, nonce, now)
        )
        return codes if made else []

    async def passkey_question(self, session: Session) -> str | None:
        """Return the question for a new passkey, in JSON; None: no further one can be added."""
        known = (await self.state(session)).passkeys
        if self.verifier is None or len(known) >= PASSKEYS_MAX:
            return None
        user = session.user
        owner = PasskeyOwner(self.secrets.passkey_handle(user.user_id), user.email)
        return self.verifier.registration(owner, self._challenge(session, known), known)

    async def add_passkey(self, session: Session, answer: str, name: str) -> Sequence[str]:
        """Keep the passkey of *answer*; return recovery codes, none if the person had some.

        Raises    PasskeyRefused
        """
        known = (await self.state(session)).passkeys
        if self.verifier is None or len(known) >= PASSKEYS_MAX:
            raise PasskeyRefused("no further passkey can be added here")
        new = self.verifier.registered(answer, self._challenge(session, known), name)
        codes = make_codes(self.entropy)
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        made = await self.store.transact(
            lambda rows: _add_passkey(rows, session, new, codes, self.secrets, nonce, now)
        )
        return codes if made else []

    async def remove_passkey(self, session: Session, passkey_id: PasskeyId) -> bool:
        """Remove a passkey of the person's own; False if there is none."""
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        return await self.store.transact(
            lambda rows: _remove_passkey(rows, session, passkey_id, nonce, now)
        )

    def _challenge(self, session: Session, known: Sequence[Passkey]) -> bytes:
        """Return what a new passkey signs: another one for each session, and after each passkey."""
        newest = max((passkey.passkey_id for passkey in known), default=0)
        return self.secrets.challenge("registration", f"{session.csrf} {newest}")


def state_of(rows: AccountRows, user_id: UserId) -> FactorState:
    """Return what a user has."""
    app = rows.apps.of_user(user_id)
    return FactorState(
        app=None if app is None or app.confirmed_at is None else app,
        passkeys=rows.passkeys.of_user(user_id),
        codes_left=len(rows.recovery_codes.unused(user_id)),
    )


def _begin_app(rows: AccountRows, session: Session, nonce: bytes, at: UnixMs) -> None:
    owner = expect_session(rows, session)
    if state_of(rows, owner.user_id).app is None:
        rows.apps.replace(owner.user_id, nonce, at)


def _confirm_app(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    session: Session,
    code: str,
    codes: Sequence[str],
    secrets: AccountSecrets,
    nonce: bytes,
    at: UnixMs,
) -> bool:
    owner = expect_session(rows, session)
    app = rows.apps.of_user(owner.user_id)
    if app is None or app.confirmed_at is not None:
        raise WrongCode
    if not accept_app_code(rows, app, plain(code), secrets, at):
        raise WrongCode
    was_on = state_of(rows, owner.user_id).is_on
    rows.apps.update(app.app_id, confirmed_at=at)
    _added(rows, session, owner, APP_ADDED, nonce, at)
    return not was_on and _keep_codes(rows, owner.user_id, codes, secrets, at)


def _remove_app(rows: AccountRows, session: Session, nonce: bytes, at: UnixMs) -> None:
    owner = expect_session(rows, session)
    if state_of(rows, owner.user_id).app is not None:
        rows.apps.delete(owner.user_id, EVER)
        _removed(rows, session, owner, APP_REMOVED, nonce, at)


def _renew(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    session: Session,
    codes: Sequence[str],
    secrets: AccountSecrets,
    nonce: bytes,
    at: UnixMs,
) -> bool:
    owner = expect_session(rows, session)
    if not state_of(rows, owner.user_id).is_on:
        return False
    _tell(rows, session, owner, CODES_RENEWED, nonce, at)
    return _keep_codes(rows, owner.user_id, codes, secrets, at)


def _add_passkey(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    session: Session,
    new: NewPasskey,
    codes: Sequence[str],
    secrets: AccountSecrets,
    nonce: bytes,
    at: UnixMs,
) -> bool:
    owner = expect_session(rows, session)
    if rows.passkeys.find(new.credential_id) is not None:
        raise PasskeyRefused("this passkey is known already")
    was_on = state_of(rows, owner.user_id).is_on
    rows.passkeys.insert(owner.user_id, new, at)
    _added(rows, session, owner, PASSKEY_ADDED, nonce, at)
    return not was_on and _keep_codes(rows, owner.user_id, codes, secrets, at)


def _remove_passkey(
    rows: AccountRows, session: Session, passkey_id: PasskeyId, nonce: bytes, at: UnixMs
) -> bool:
    owner = expect_session(rows, session)
    own = {passkey.passkey_id for passkey in rows.passkeys.of_user(owner.user_id)}
    if passkey_id not in own:
        return False
    rows.passkeys.remove(passkey_id)
    _removed(rows, session, owner, PASSKEY_REMOVED, nonce, at)
    return True


def _keep_codes(
    rows: AccountRows, user_id: UserId, codes: Sequence[str], secrets: AccountSecrets, at: UnixMs
) -> bool:
    hashes = [secrets.recovery_hash(user_id, plain(code)) for code in codes]
    rows.recovery_codes.replace(user_id, hashes, at)
    return True


def _added(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows, session: Session, owner: User, what: str, nonce: bytes, at: UnixMs
) -> None:
    end_sessions(rows, owner.user_id, but=session)
    _tell(rows, session, owner, what, nonce, at)


def _removed(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows, session: Session, owner: User, what: str, nonce: bytes, at: UnixMs
) -> None:
    if not state_of(rows, owner.user_id).is_on:
        drop_factors(rows, owner.user_id)
    _tell(rows, session, owner, what, nonce, at)


def _tell(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows, session: Session, owner: User, what: str, nonce: bytes, at: UnixMs
) -> None:
    """Note it, and write to the person."""
    note(rows.events, at, user_actor(owner.user_id), what, f"user:{owner.user_id}")
    since = session.created_at
    announce(rows, owner, EmailKind.SECOND_FACTOR, {"what": what}, nonce, since, at)
