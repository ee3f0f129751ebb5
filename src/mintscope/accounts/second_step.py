"""Sign-in by passkey alone, and the second step of a sign-in by password: a code or a passkey."""

from dataclasses import InitVar, dataclass
from enum import Enum, auto
from typing import Final

from mintscope.accounts.factor_rows import (
    WAIT_MS,
    HalfSignIn,
    Passkey,
    PasskeyProof,
    PasskeyRefused,
    WebAuthn,
)
from mintscope.accounts.factors import CodeLimit, FactorState, WrongCode, accept_code, state_of
from mintscope.accounts.mail.email import EmailKind, tell_owner
from mintscope.accounts.rows import AccountRows, AccountService
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import (
    COOKIE_LENGTH,
    Browser,
    NewSession,
    Session,
    draw_cookie,
    draw_text,
)
from mintscope.accounts.sessions import NOTICES_MAX, expect_session, taken_back_at
from mintscope.accounts.user import LoginLimit, LoginLimits, keep_session
from mintscope.kit.audit import UserId, user_actor
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS

NOT_KNOWN: Final = "this passkey is not registered here"
NOT_VERIFIED: Final = (
    "the device did not verify you by a PIN, a finger or a face; sign in with your password, and"
    " use the passkey then"
)
COPIED: Final = (
    "this passkey may be a copy, because it has been used since this device used it last; sign in"
    " another way, and remove the passkey"
)
NOT_ALONE: Final = (
    "this passkey was added before the account was taken back; sign in with your password, and use"
    " the passkey then"
)
COPY_REFUSED: Final = "a passkey was refused that may be a copy of yours"
OF_ANOTHER: Final = "this passkey does not belong to this account"
NOT_USED_HERE: Final = "this service does not use passkeys"
TIME_DIGITS_MAX: Final = 15
PROVED: Final = "confirmed with passkey"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A sign-in that waits for a second factor: the person's factors, and the passkey request.

    question   the request for a signature by a passkey, as JSON; None: no passkey can be used
    """

    state: FactorState
    question: str | None


@dataclass(frozen=True, slots=True)
class PasskeyQuestion:
    """A request for a signature by a passkey.

    begun_at   the time of the request; the browser must send it back with the answer
    text       the request as JSON
    """

    begun_at: UnixMs
    text: str


class _Outcome(Enum):
    """The result of a transaction about a passkey."""

    DONE = auto()
    OVER = auto()
    COPIED = auto()
    NOT_ALONE = auto()


REFUSALS: Final = {_Outcome.COPIED: COPIED, _Outcome.NOT_ALONE: NOT_ALONE}


@dataclass(kw_only=True, eq=False, repr=False)
class SecondStep(AccountService):
    """Completes sign-ins by a second factor; a ticket identifies the sign-in for ten minutes.

    A passkey alone suffices if its device verifies the user: the device is one factor, and the PIN,
    fingerprint or face is the other.  A *visit* is a random text in a cookie of the browser.  The
    challenge for a passkey alone is derived from the visit and the time, so the challenge is not
    stored, and no other browser can answer it.

    Methods raise ServiceUnavailable.
    """

    verifier: WebAuthn | None
    limits: InitVar[Limits]
    guesses: InitVar[LoginLimits]

    def __post_init__(self, limits: Limits, guesses: LoginLimits) -> None:
        self._code_limit = CodeLimit(limits)
        self._login_limit = LoginLimit(guesses, limits)

    def visit(self, known: str) -> str:
        """Return *known* if it has the form of a visit; otherwise return a new visit."""
        is_visit = len(known) == COOKIE_LENGTH and known.isascii()
        return known if is_visit else draw_text(self.entropy)

    def question(self, visit: str) -> PasskeyQuestion | None:
        """Return a challenge that any passkey can sign, once and within ten minutes.

        Return None if this site does not use passkeys.
        """
        if self.verifier is None:
            return None
        now = self.clock.now()
        return PasskeyQuestion(now, self.verifier.authentication_by_any(self._asked(visit, now)))

    async def by_passkey_alone(
        self, visit: str, begun: str, answer: str, browser: Browser
    ) -> str | None:
        """Return the cookie of a new session if *answer* has a valid signature of a challenge.

        Return None if there is no visit, if the challenge is too old or was already signed, or if
        the passkey was removed meanwhile.
        Raises    PasskeyRefused, TooManyAttempts
        """
        if self.verifier is None:
            raise PasskeyRefused(NOT_USED_HERE)
        begun_at = self._expect_recent(begun)
        if begun_at is None or not visit:
            return None
        await self._login_limit.begin_passkey(browser.address)
        try:
            passkey = await self._find_passkey(answer)
            proof = self.verifier.authenticated(answer, self._asked(visit, begun_at), passkey)
            if proof.handle != self.secrets.passkey_handle(passkey.user_id):
                raise PasskeyRefused(NOT_KNOWN)
            if not proof.is_verified:
                raise PasskeyRefused(NOT_VERIFIED)
            cookie, session = draw_cookie(self.secrets, self.entropy, browser)
            now = self.clock.now()
            outcome = await self.store.transact(
                lambda rows: _alone(rows, passkey, proof, begun_at, session, now)
            )
        except ServiceUnavailable:
            await self._login_limit.forgive_passkey(browser.address)
            raise
        if outcome in REFUSALS:
            raise PasskeyRefused(REFUSALS[outcome])
        await self._login_limit.forgive_passkey(browser.address)
        return cookie if outcome is _Outcome.DONE else None

    async def proof_question(self, session: Session) -> PasskeyQuestion | None:
        """Return a challenge for the passkeys of a signed-in person; None without passkeys.

        It can be signed once, within ten minutes, in that session.
        """
        if self.verifier is None:
            return None
        state = await self.store.read(lambda rows: state_of(rows, session.user.user_id))
        if not state.passkeys:
            return None
        now = self.clock.now()
        challenge = self._asked_of(session, now)
        text = self.verifier.authentication(challenge, state.passkeys, is_alone=True)
        return PasskeyQuestion(now, text)

    async def prove(self, session: Session, begun: str, answer: str, address: str) -> bool:
        """Record a proof by passkey in *session*; it counts like entering the password.

        address    the client's address, by which wrong answers are counted
        Return False if the challenge is too old or was already signed, or if the passkey was
        removed meanwhile.
        Raises    PasskeyRefused, TooManyAttempts, SessionEnded
        """
        if self.verifier is None:
            raise PasskeyRefused(NOT_USED_HERE)
        begun_at = self._expect_recent(begun)
        if begun_at is None:
            return False
        await self._login_limit.begin_passkey(address)
        try:
            passkey = await self._find_passkey(answer)
            if passkey.user_id != session.user.user_id:
                raise PasskeyRefused(OF_ANOTHER)
            challenge = self._asked_of(session, begun_at)
            proof = self.verifier.authenticated(answer, challenge, passkey)
            if not proof.is_verified:
                raise PasskeyRefused(NOT_VERIFIED)
            now = self.clock.now()
            outcome = await self.store.transact(
                lambda rows: _prove(rows, session, passkey, proof, begun_at, now)
            )
        except ServiceUnavailable:
            await self._login_limit.forgive_passkey(address)
            raise
        if outcome in REFUSALS:
            raise PasskeyRefused(REFUSALS[outcome])
        await self._login_limit.forgive_passkey(address)
        return outcome is _Outcome.DONE

    async def waiting(self, ticket: str) -> Waiting | None:
        """Return the sign-in of *ticket*; None if it has ended or never began."""
        half = await self._find(ticket)
        if half is None:
            return None
        state = await self.store.read(lambda rows: state_of(rows, half.user_id))
        question = None
        if self.verifier is not None and state.passkeys:
            question = self.verifier.authentication(self._challenge(ticket), state.passkeys)
        return Waiting(state, question)

    async def by_code(self, ticket: str, code: str, browser: Browser) -> str | None:
        """Return the cookie of a new session if *code* is a valid app code or recovery code.

        Return None if the sign-in has ended.  Raises WrongCode, TooManyAttempts.
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
        """Return the cookie of a new session if *answer* has a passkey's valid signature.

        Return None if the sign-in has ended, or if the passkey was removed meanwhile.
        Raises PasskeyRefused.
        """
        half = await self._find(ticket)
        if half is None:
            return None
        if self.verifier is None:
            raise PasskeyRefused(NOT_USED_HERE)
        passkey = await self._find_passkey(answer)
        if passkey.user_id != half.user_id:
            raise PasskeyRefused(OF_ANOTHER)
        proof = self.verifier.authenticated(answer, self._challenge(ticket), passkey)
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        digest = self.secrets.hash(ticket)
        now = self.clock.now()
        outcome = await self.store.transact(
            lambda rows: _by_passkey(rows, digest, passkey, proof, session, now)
        )
        if outcome is _Outcome.COPIED:
            raise PasskeyRefused(COPIED)
        return cookie if outcome is _Outcome.DONE else None

    async def _find_passkey(self, answer: str) -> Passkey:
        """Return the passkey that *answer* claims to be from.  Raises PasskeyRefused."""
        assert self.verifier is not None
        credential_id = self.verifier.credential_of(answer)
        passkey = await self.store.read(lambda rows: rows.passkeys.find(credential_id))
        if passkey is None:
            raise PasskeyRefused(NOT_KNOWN)
        return passkey

    def _asked(self, visit: str, begun_at: UnixMs) -> bytes:
        return self.secrets.challenge("visit", f"{visit} {begun_at}")

    def _asked_of(self, session: Session, begun_at: UnixMs) -> bytes:
        return self.secrets.challenge("prove", f"{session.session_id} {begun_at}")

    def _expect_recent(self, begun: str) -> UnixMs | None:
        """Return *begun*, the time of a challenge; None if it is no time, or too long ago."""
        if not (begun.isascii() and begun.isdigit() and len(begun) <= TIME_DIGITS_MAX):
            return None
        begun_at = UnixMs(int(begun))
        return begun_at if self.clock.now() - begun_at < WAIT_MS else None

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
        raise WrongCode  # this also restores the ticket, so that the person can try again
    if left >= 0:
        _tell_of_recovery(rows, half.user_id, left, at)
    keep_session(rows, half.user_id, session, at)
    return True


def _by_passkey(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    ticket_hash: CredentialHash,
    passkey: Passkey,
    proof: PasskeyProof,
    session: NewSession,
    at: UnixMs,
) -> _Outcome:
    """Open a session, unless the ticket was already used or the passkey seems to be copied."""
    kept = rows.passkeys.find(passkey.credential_id)
    half = rows.sign_ins.find(ticket_hash)
    if kept is None or half is None:
        return _Outcome.OVER
    if proof.is_of_copy(kept):
        return _refuse_copy(rows, kept, at)
    if not _use(rows, half):
        return _Outcome.OVER
    _open(rows, kept, proof, session, at)
    return _Outcome.DONE


def _alone(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    passkey: Passkey,
    proof: PasskeyProof,
    begun_at: UnixMs,
    session: NewSession,
    at: UnixMs,
) -> _Outcome:
    """Open a session, unless `_object` returns a refusal or the account no longer exists."""
    kept = rows.passkeys.find(passkey.credential_id)
    if kept is None or rows.users.get(kept.user_id) is None:
        return _Outcome.OVER
    objection = _object(rows, kept, proof, begun_at, at)
    if objection is not None:
        return objection
    # Record no time before the challenge, whose time may come from a process with a faster clock:
    # `_object` then accepts no second answer to the challenge.
    _open(rows, kept, proof, session, at, used_at=max(at, begun_at))
    return _Outcome.DONE


def _prove(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    session: Session,
    passkey: Passkey,
    proof: PasskeyProof,
    begun_at: UnixMs,
    at: UnixMs,
) -> _Outcome:
    """Record the proof in the session, unless `_object` returns a refusal.  Raises SessionEnded."""
    owner = expect_session(rows, session)
    kept = rows.passkeys.find(passkey.credential_id)
    if kept is None or kept.user_id != owner.user_id:
        return _Outcome.OVER
    objection = _object(rows, kept, proof, begun_at, at)
    if objection is not None:
        return objection
    count = proof.sign_count
    rows.passkeys.update(kept.passkey_id, sign_count=count, last_used_at=max(at, begun_at))
    rows.sessions.update(session.session_id, proved_at=at)
    number = str(kept.passkey_id)
    subject = f"user:{owner.user_id}"
    rows.events.note(at, user_actor(owner.user_id), PROVED, subject, passkey=number)
    return _Outcome.DONE


def _object(
    rows: AccountRows, kept: Passkey, proof: PasskeyProof, begun_at: UnixMs, at: UnixMs
) -> _Outcome | None:
    """Return a refusal if the passkey *kept* alone does not suffice; None if it suffices.

    If the passkey may be a copy, log this and write to its owner.
    """
    if kept.last_used_at is not None and kept.last_used_at >= begun_at:
        return _Outcome.OVER
    if proof.is_of_copy(kept):
        return _refuse_copy(rows, kept, at)
    # A thief may have added this passkey before the session whose changes were undone.  The passkey
    # remains a second factor, which is useless to a thief who does not know the new password.
    taken_back = taken_back_at(rows, kept.user_id)
    is_older = taken_back is not None and kept.made_at <= taken_back
    return _Outcome.NOT_ALONE if is_older else None


def _open(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows,
    passkey: Passkey,
    proof: PasskeyProof,
    session: NewSession,
    at: UnixMs,
    *,
    used_at: UnixMs | None = None,
) -> None:
    count = proof.sign_count
    rows.passkeys.update(passkey.passkey_id, sign_count=count, last_used_at=used_at or at)
    keep_session(rows, passkey.user_id, session, at, passkey_id=passkey.passkey_id)


def _refuse_copy(rows: AccountRows, passkey: Passkey, at: UnixMs) -> _Outcome:
    """Log that *passkey* may be a copy, and write to its owner."""
    user_id = passkey.user_id
    kept = rows.users.get(user_id)
    if kept is None:
        return _Outcome.OVER
    actor = user_actor(user_id)
    number = str(passkey.passkey_id)
    rows.events.note(at, actor, "used copied passkey", f"user:{user_id}", passkey=number)
    since = UnixMs(at - DAY_MS)
    kind = EmailKind.SECOND_FACTOR
    if len(rows.emails.written_to(kept.user.email, kind, since)) < NOTICES_MAX:
        tell_owner(rows.emails, kept.user, kind, {"what": COPY_REFUSED}, at)
    return _Outcome.COPIED


def _use(rows: AccountRows, half: HalfSignIn) -> bool:
    """Use up the ticket; return False if it was used or ended, or if the user was removed."""
    return rows.users.get(half.user_id) is not None and rows.sign_ins.delete(half.sign_in_id)


def _tell_of_recovery(rows: AccountRows, user_id: UserId, left: int, at: UnixMs) -> None:
    kept = rows.users.get(user_id)
    assert kept is not None, "it was read just now"
    actor = user_actor(user_id)
    rows.events.note(at, actor, "used recovery code", f"user:{user_id}", left=str(left))
    what = f"a recovery code was used to sign in; codes left: {left}"
    tell_owner(rows.emails, kept.user, EmailKind.SECOND_FACTOR, {"what": what}, at)
