"""Second factors of a person: authenticator apps, recovery codes, passkeys.

An app shows a new code of six digits every thirty seconds (RFC 6238, with SHA-1).  Each code is
accepted once, up to one 30-second step early or late, because clocks of phones are not exact.

A person gets ten recovery codes, shown once; each replaces the second factor of one sign-in.
"""

import hmac
from base64 import b32encode
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import InitVar, dataclass
from struct import iter_unpack
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from mintscope.accounts import factor_rows
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountService
from mintscope.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.accounts.session import EVER, Session
from mintscope.accounts.sessions import (
    RESET,
    announce,
    drop_factors,
    end_sessions,
    expect_session,
)
from mintscope.accounts.user import guess
from mintscope.kit.audit import UserId
from mintscope.kit.limits import Limit, Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS

T = TypeVar("T")

DIGITS: Final = 6
STEP_MS: Final = 30 * SECOND_MS
DRIFT_STEPS: Final = 1
OFFSET_MASK: Final = 0x0F
SIGN_MASK: Final = 0x7FFF_FFFF


def step_of(at: UnixMs) -> int:
    """Return the number of the 30-second step that contains *at*."""
    return at // STEP_MS


def code_at(secret: bytes, step: int, *, digits: int = DIGITS) -> str:
    """Return the app's code for *step*, as in RFC 4226, 5.3."""
    digest = hmac.digest(secret, step.to_bytes(8), "sha1")
    offset = digest[-1] & OFFSET_MASK
    number = int.from_bytes(digest[offset : offset + 4]) & SIGN_MASK
    return f"{number % 10**digits:0{digits}d}"


def matching_step(secret: bytes, code: str, at: UnixMs, *, after: int) -> int | None:
    """Return the number of the 30-second step in which an app shows *code*; None if none matches.

    Only the step of *at* and the steps directly before and after it are compared, and of these only
    steps later than *after*, the step of the last accepted code.
    """
    now = step_of(at)
    found = None
    for step in range(now - DRIFT_STEPS, now + DRIFT_STEPS + 1):
        # Every step is compared, so that the time taken reveals nothing.
        is_its = hmac.compare_digest(code_at(secret, step).encode(), code.encode())
        if is_its and step > after and found is None:
            found = step
    return found


def secret_text(secret: bytes) -> str:
    """Return *secret* as people type it into an app: base32, in groups of four."""
    text = b32encode(secret).rstrip(b"=").decode()
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def app_address(secret: bytes, *, issuer: str, name: str) -> str:
    """Return the URI that an authenticator app reads from a QR code; the app shows *name*."""
    label = quote(f"{issuer}:{name}", safe="@:")
    text = b32encode(secret).rstrip(b"=").decode()
    fields = {"secret": text, "issuer": issuer, "algorithm": "SHA1", "digits": DIGITS, "period": 30}
    return f"otpauth://totp/{label}?{urlencode(fields, quote_via=quote)}"


CODES: Final = 10
GROUPS: Final = 2
GROUP_LENGTH: Final = 5
# The characters of recovery codes, without those that look alike: 0 and o; 1, l and i; u and v.
SIGNS: Final = "23456789abcdefghjkmnpqrstwxyz"
BYTES_PER_SIGN: Final = 4  # enough that all characters are almost equally likely


def make_codes(entropy: Callable[[int], bytes]) -> list[str]:
    """Return ten codes of 48 bits each, such as `3k7mp-x2rqa`."""
    return [_make_code(entropy) for _ in range(CODES)]


def _make_code(entropy: Callable[[int], bytes]) -> str:
    drawn = entropy(GROUPS * GROUP_LENGTH * BYTES_PER_SIGN)
    signs = "".join(SIGNS[number % len(SIGNS)] for (number,) in iter_unpack(">I", drawn))
    return f"{signs[:GROUP_LENGTH]}-{signs[GROUP_LENGTH:]}"


def plain(text: str) -> str:
    """Return *text*, a typed code, without spaces and dashes, in lower case."""
    return "".join(text.split()).replace("-", "").lower()


# Three of a million codes are valid at any time: a thief who knows the password needs more than
# 6,000 days on average to guess one.  These limits start over when the password is set by e-mail:
# otherwise a thief who knew the former password could keep the owner out.
GUESSES: Final = (
    Limit(name="codes in 15 minutes", count=10, window_s=15 * MINUTE_S),
    Limit(name="codes in a day", count=50, window_s=DAY_S),
)
# The limit of a thief who reads the owner's e-mails, and can set the password again and again.
ALL_GUESSES: Final = Limit(name="codes of all passwords in a day", count=100, window_s=DAY_S)


class WrongCode(Exception):
    """The code is wrong, too old, or already used; the error does not say which.

    It is also raised if the person has no app to confirm.
    """


class CodeLimit:
    """Limits the guesses of codes by each user: 10 in 15 minutes, 50 in a day.

    A password that is set by e-mail allows as many further guesses, up to 100 in a day.
    """

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in GUESSES]
        self._all = limits.limiter(ALL_GUESSES)

    def guess(self, user_id: UserId, reset: int) -> AbstractAsyncContextManager[None]:
        """Count a guess by the user while the block checks it.  Raises TooManyAttempts.

        The count is undone if the block raises no error, because the guess was right, or if it
        raises ServiceUnavailable.

        reset   the number of the user's `last_reset`
        """
        key = f"{user_id} {reset}"
        return guess((self._all, user_id), *((window, key) for window in self._windows))


def last_reset(rows: AccountRows, user_id: UserId) -> int:
    """Return the number of the event in which the user's password was last reset, or 0."""
    return rows.events.last_number(f"user:{user_id}", RESET)


def accept_app_code(
    rows: AccountRows, app: factor_rows.App, code: str, secrets: AccountSecrets, at: UnixMs
) -> bool:
    """Return whether *code* is a valid code of *app*; a valid code is accepted only once."""
    secret = secrets.app_secret(app.user_id, app.nonce)
    step = matching_step(secret, plain(code), at, after=app.last_step)
    if step is None:
        return False
    rows.apps.update(app.app_id, last_step=step)
    return True


def accept_code(
    rows: AccountRows, user_id: UserId, code: str, secrets: AccountSecrets, at: UnixMs
) -> int | None:
    """Accept *code* if it is a code of the app or a recovery code; it is then used up.

    Return -1 for a code of the app, the number of remaining recovery codes for a recovery code, and
    None if *code* is wrong.
    """
    # Recovery codes are longer than codes of apps, so no text can be both.
    typed = plain(code)
    if len(typed) == DIGITS and typed.isascii() and typed.isdigit():
        app = rows.apps.of_user(user_id)
        is_right = (
            app is not None
            and app.confirmed_at is not None
            and accept_app_code(rows, app, typed, secrets, at)
        )
        return -1 if is_right else None
    digest = secrets.recovery_hash(user_id, typed)
    unused = rows.recovery_codes.unused(user_id)
    found = [each for each in unused if hmac.compare_digest(each.code_hash, digest)]
    if not found:
        return None
    rows.recovery_codes.delete(found[0].code_id)
    return len(unused) - 1


APP_ADDED = "an authenticator app was added"
APP_REMOVED = "the authenticator app was removed"
PASSKEY_ADDED = "a passkey was added"
PASSKEY_REMOVED = "a passkey was removed"
CODES_RENEWED = "new recovery codes were made"
FULL = "this account cannot have another passkey"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorState:
    """The second factors of a person, and *codes_left*, the number of unused recovery codes.

    app   the confirmed app; None: the person has none
    """

    app: factor_rows.App | None
    passkeys: Sequence[factor_rows.Passkey]
    codes_left: int

    @property
    def is_on(self) -> bool:
        """Whether sign-in needs a second factor."""
        return self.app is not None or bool(self.passkeys)


@dataclass(kw_only=True, eq=False, repr=False)
class Factors(AccountService):
    """Adds and removes second factors; each change is logged, and reported to the person by e-mail.

    A person who adds a first factor gets ten recovery codes, which are deleted when the last factor
    is removed.  A new factor ends all other sessions, because they began without that factor.
    Methods raise ServiceUnavailable; methods that change something also raise SessionEnded if the
    session has ended.
    """

    verifier: factor_rows.WebAuthn | None
    limits: InitVar[Limits]

    def __post_init__(self, limits: Limits) -> None:
        self._code_limit = CodeLimit(limits)

    async def state(self, session: Session) -> FactorState:
        """Return the second factors of the person."""
        return await self.store.read(lambda rows: state_of(rows, session.user.user_id))

    async def begin_app(self, session: Session) -> None:
        """Create a secret for an authenticator app, unless the person has a confirmed one.

        The secret replaces that of an unconfirmed app.  `confirm_app` makes the app a factor.
        """

        def begin(change: _Change) -> None:
            if change.state().app is None:
                change.rows.apps.replace(change.owner.user_id, change.nonce, change.at)

        await self._transact(session, begin)

    async def app_secret(self, session: Session) -> bytes | None:
        """Return the secret of the person's authenticator app, until the app is confirmed.

        Return None if there is no unconfirmed app.
        """
        user_id = session.user.user_id
        app = await self.store.read(lambda rows: rows.apps.of_user(user_id))
        if app is None or app.confirmed_at is not None:
            return None
        return self.secrets.app_secret(user_id, app.nonce)

    async def confirm_app(self, session: Session, code: str) -> Sequence[str]:
        """Add the authenticator app as a second factor; return recovery codes for a first factor.

        Return no codes if the person already had another factor.
        Raises WrongCode, TooManyAttempts.
        """

        def confirm(change: _Change) -> Sequence[str]:
            app = change.rows.apps.of_user(change.owner.user_id)
            if app is None or app.confirmed_at is not None:
                raise WrongCode
            if not accept_app_code(change.rows, app, plain(code), self.secrets, change.at):
                raise WrongCode
            # Before the app counts as a factor.
            was_on = change.state().is_on
            # The secret may be older than the session that an undo link ends.
            change.rows.apps.update(app.app_id, made_at=change.at, confirmed_at=change.at)
            change.added(APP_ADDED)
            return [] if was_on else change.new_codes()

        user_id = session.user.user_id
        reset = await self.store.read(lambda rows: last_reset(rows, user_id))
        async with self._code_limit.guess(user_id, reset):
            return await self._transact(session, confirm)

    async def remove_app(self, session: Session) -> None:
        """Remove the confirmed app; do nothing if the person has none."""

        def remove(change: _Change) -> None:
            if change.state().app is not None:
                change.rows.apps.end(change.owner.user_id, EVER)
                change.removed(APP_REMOVED)

        await self._transact(session, remove)

    async def renew_codes(self, session: Session) -> Sequence[str]:
        """Replace the recovery codes; return ten new ones, or none if the person has no factor."""

        def renew(change: _Change) -> Sequence[str]:
            if not change.state().is_on:
                return []
            change.tell(CODES_RENEWED)
            return change.new_codes()

        return await self._transact(session, renew)

    async def passkey_question(self, session: Session) -> str | None:
        """Return a request for a new passkey, as JSON; None if no passkey can be added."""
        known = (await self.state(session)).passkeys
        if self.verifier is None or len(known) >= factor_rows.PASSKEYS_MAX:
            return None
        handle = self.secrets.passkey_handle(session.user.user_id)
        challenge = self._challenge(session, known)
        return self.verifier.registration(handle, session.user.email, challenge, known)

    async def add_passkey(self, session: Session, answer: str, name: str) -> Sequence[str]:
        """Store the passkey in *answer*; return new recovery codes if it is the first factor.

        If it is not the first factor, return no codes.  Raises PasskeyRefused.
        """
        known = (await self.state(session)).passkeys
        if self.verifier is None or len(known) >= factor_rows.PASSKEYS_MAX:
            raise factor_rows.PasskeyRefused(FULL)
        new = self.verifier.registered(answer, self._challenge(session, known), name)

        def add(change: _Change) -> Sequence[str]:
            if change.rows.passkeys.find(new.credential_id) is not None:
                raise factor_rows.PasskeyRefused("this passkey is already registered")
            before = change.state()
            # Counted again, because another request may have added a passkey meanwhile.
            if len(before.passkeys) >= factor_rows.PASSKEYS_MAX:
                raise factor_rows.PasskeyRefused(FULL)
            change.rows.passkeys.insert(change.owner.user_id, new, change.at)
            change.added(PASSKEY_ADDED)
            return [] if before.is_on else change.new_codes()

        return await self._transact(session, add)

    async def remove_passkey(self, session: Session, passkey_id: factor_rows.PasskeyId) -> bool:
        """Remove a passkey of the person; return False if the person does not have it."""

        def remove(change: _Change) -> bool:
            own = {passkey.passkey_id for passkey in change.state().passkeys}
            if passkey_id not in own:
                return False
            change.rows.passkeys.delete(passkey_id)
            change.removed(PASSKEY_REMOVED)
            return True

        return await self._transact(session, remove)

    async def _transact(self, session: Session, work: "Callable[[_Change], T]") -> T:
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        # Drawn before the transaction, which the engine may run again.
        codes = make_codes(self.entropy)

        def act(rows: AccountRows) -> T:
            owner = expect_session(rows, session)
            return work(_Change(rows, session, owner, codes, self.secrets, nonce, now))

        return await self.store.transact(act)

    def _challenge(self, session: Session, known: Sequence[factor_rows.Passkey]) -> bytes:
        """Derive the challenge for a new passkey from *session* and the newest of *known*."""
        newest = max((passkey.passkey_id for passkey in known), default=0)
        return self.secrets.challenge("registration", f"{session.csrf} {newest}")


def state_of(rows: AccountRows, user_id: UserId) -> FactorState:
    """Return the second factors of a user."""
    app = rows.apps.of_user(user_id)
    return FactorState(
        app=None if app is None or app.confirmed_at is None else app,
        passkeys=rows.passkeys.of_user(user_id),
        codes_left=len(rows.recovery_codes.unused(user_id)),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a person's second factors in one transaction.

    codes   ten new recovery codes; they are used only if `new_codes` is called
    nonce   random bytes from which a new app's secret and the undo link are derived
    """

    rows: AccountRows
    session: Session
    owner: factor_rows.User
    codes: Sequence[str]
    secrets: AccountSecrets
    nonce: bytes
    at: UnixMs

    def state(self) -> FactorState:
        """Return the person's second factors at this point of the transaction."""
        return state_of(self.rows, self.owner.user_id)

    def new_codes(self) -> Sequence[str]:
        """Replace the recovery codes with ten new ones, and return these."""
        user_id = self.owner.user_id
        hashes = [self.secrets.recovery_hash(user_id, plain(code)) for code in self.codes]
        self.rows.recovery_codes.replace(user_id, hashes, self.at)
        return self.codes

    def added(self, what: str) -> None:
        """End all other sessions, which began without the new factor; report the change *what*."""
        end_sessions(self.rows, self.owner.user_id, but=self.session)
        self.tell(what)

    def removed(self, what: str) -> None:
        """Delete the recovery codes if no factor is left; report the change *what*."""
        # With the codes, `drop_factors` deletes an app that was never confirmed.
        if not self.state().is_on:
            drop_factors(self.rows, self.owner.user_id)
        self.tell(what)

    def tell(self, what: str) -> None:
        """Log the change *what*, and write an e-mail about it to the person."""
        owner = self.owner
        since = self.session.created_at
        self.rows.events.note_own(self.at, owner.user_id, what)
        kind = EmailKind.SECOND_FACTOR
        announce(self.rows, owner, kind, {"what": what}, self.nonce, since, self.at)
