"""Sign-in by passkey alone, and the second step of a sign-in by password: a code or a passkey."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from enum import Enum, auto
from typing import Final

from mintscope.accounts import factor_rows
from mintscope.accounts.factors import (
    CodeLimit,
    FactorState,
    WrongCode,
    accept_code,
    last_reset,
    state_of,
)
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountService
from mintscope.accounts.session import (
    COOKIE_LENGTH,
    Browser,
    Session,
    draw_cookie,
    draw_text,
)
from mintscope.accounts.sessions import NOTICES_MAX, TOOK_BACK, expect_session, keep_session
from mintscope.accounts.user import LoginLimit, LoginLimits
from mintscope.kit.audit import UserId
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS

NOT_KNOWN: Final = "this passkey is not registered here"
NOT_VERIFIED: Final = (
    "the device did not verify you by a PIN, a finger or a face; sign in with your password, and"
    " use the passkey then"
)
COPIED: Final = (
    "this passkey may be a copy, because it was used on another device after this device last used"
    " it; sign in another way, and remove the passkey"
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
    DONE = auto()
    OVER = auto()  # the sign-in has ended, or the challenge or the passkey is no longer valid
    COPIED = auto()  # the passkey may be a copy, and was refused


@dataclass(kw_only=True, eq=False, repr=False)
class SecondStep(AccountService):
    """Completes sign-ins by a second factor; a ticket identifies the sign-in for ten minutes.

    A passkey alone suffices if its device verifies the user: the device is one factor, and the PIN,
    fingerprint or face is the other.  A *visit* is a random text in a cookie of the browser.  The
    challenge for a passkey alone is derived from the visit and the time, so the challenge is not
    stored, and no other browser can answer it.

    Methods raise ServiceUnavailable.
    """

    verifier: factor_rows.WebAuthn | None
    limits: InitVar[Limits]
    guesses: InitVar[LoginLimits]

    def __post_init__(self, limits: Limits, guesses: LoginLimits) -> None:
        self._code_limit = CodeLimit(limits)
        self._login_limit = LoginLimit(guesses, limits)

    def visit(self, known: str) -> str:
        """Return *known* if it has the form of the visit cookie, otherwise a new random one."""
        is_visit = len(known) == COOKIE_LENGTH and known.isascii()
        return known if is_visit else draw_text(self.entropy)

    def question(self, visit: str) -> PasskeyQuestion | None:
        """Return a request for a signature by any passkey, for the browser with the cookie *visit*.

        Each passkey can answer the request once, within ten minutes.  Return None if this site does
        not use passkeys.
        """
        if self.verifier is None:
            return None
        now = self.clock.now()
        return PasskeyQuestion(now, self.verifier.authentication_by_any(self._asked(visit, now)))

    async def by_passkey_alone(
        self, visit: str, begun: str, answer: str, browser: Browser
    ) -> str | None:
        """Return the cookie of a new session if *answer* has a valid signature by a passkey.

        The signed challenge must be that of *visit* and *begun*, the time of the request.
        Return None if *visit* is empty, if the challenge is too old or was already signed by the
        passkey, or if the passkey was removed.
        Raises    PasskeyRefused, TooManyAttempts
        """
        verifier = self._expect_verifier()
        begun_at = self._expect_recent(begun)
        if begun_at is None or not visit:
            return None
        async with self._login_limit.passkey(browser.address):
            passkey = await self._find_passkey(answer)
            proof = verifier.authenticated(answer, self._asked(visit, begun_at), passkey)
            # WebAuthn (7.2) requires this if the user was not identified before.
            if proof.handle != self.secrets.passkey_handle(passkey.user_id):
                raise factor_rows.PasskeyRefused(NOT_KNOWN)
            if not proof.is_verified:
                raise factor_rows.PasskeyRefused(NOT_VERIFIED)
            cookie, session = draw_cookie(self.secrets, self.entropy, browser)
            now = self.clock.now()

            def enter(rows: AccountRows) -> _Outcome:
                kept = rows.passkeys.find(passkey.credential_id)
                if kept is None or rows.users.get(kept.user_id) is None:
                    return _Outcome.OVER
                outcome = _use_alone(rows, kept, proof, begun_at, now)
                if outcome is _Outcome.DONE:
                    keep_session(rows, kept.user_id, session, now, passkey_id=kept.passkey_id)
                return outcome

            return cookie if await self._transact(enter) else None

    async def proof_question(self, session: Session) -> PasskeyQuestion | None:
        """Return a request for a signature by a passkey, to confirm again who uses *session*.

        Each passkey of the person can answer the request once, within ten minutes.  Return None if
        the person has no passkeys, or if this site does not use passkeys.
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

        Return False if the challenge is too old or was already signed by the passkey, or if the
        passkey was removed.

        begun      the time of the request
        address    the client's address, by which wrong answers are counted
        Raises     PasskeyRefused, TooManyAttempts, SessionEnded
        """
        verifier = self._expect_verifier()
        begun_at = self._expect_recent(begun)
        if begun_at is None:
            return False
        async with self._login_limit.passkey(address):
            passkey = await self._find_passkey(answer, session.user.user_id)
            challenge = self._asked_of(session, begun_at)
            proof = verifier.authenticated(answer, challenge, passkey)
            if not proof.is_verified:
                raise factor_rows.PasskeyRefused(NOT_VERIFIED)
            now = self.clock.now()

            def note(rows: AccountRows) -> _Outcome:
                owner = expect_session(rows, session)
                kept = rows.passkeys.find(passkey.credential_id)
                if kept is None or kept.user_id != owner.user_id:
                    return _Outcome.OVER
                outcome = _use_alone(rows, kept, proof, begun_at, now)
                if outcome is _Outcome.DONE:
                    rows.sessions.update(session.session_id, proved_at=now)
                    rows.events.note_own(now, owner.user_id, PROVED, passkey=str(kept.passkey_id))
                return outcome

            return await self._transact(note)

    async def waiting(self, ticket: str) -> Waiting | None:
        """Return the second factors that can complete a sign-in; None if *ticket* names none."""
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
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        now = self.clock.now()

        def enter(rows: AccountRows) -> bool:
            if not _use(rows, half):
                return False
            left = accept_code(rows, half.user_id, code, self.secrets, now)
            if left is None:
                raise WrongCode  # this also restores the ticket, so that the person can try again
            if left >= 0:
                _tell_of_recovery(rows, half.user_id, left, now)
            keep_session(rows, half.user_id, session, now)
            return True

        reset = await self.store.read(lambda rows: last_reset(rows, half.user_id))
        async with self._code_limit.guess(half.user_id, reset):
            is_done = await self.store.transact(enter)
        return cookie if is_done else None

    async def by_passkey(self, ticket: str, answer: str, browser: Browser) -> str | None:
        """Return the cookie of a new session if *answer* has a passkey's valid signature.

        Return None if the sign-in has ended, or if the passkey was removed.
        Raises PasskeyRefused.
        """
        half = await self._find(ticket)
        if half is None:
            return None
        verifier = self._expect_verifier()
        passkey = await self._find_passkey(answer, half.user_id)
        proof = verifier.authenticated(answer, self._challenge(ticket), passkey)
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        digest = self.secrets.hash(ticket)
        now = self.clock.now()

        def enter(rows: AccountRows) -> _Outcome:
            kept = rows.passkeys.find(passkey.credential_id)
            half = rows.sign_ins.find(digest)
            if kept is None or half is None:
                return _Outcome.OVER
            # Before the ticket is used up: the person can then sign in another way.
            if proof.is_of_copy(kept):
                return _refuse_copy(rows, kept, now)
            if not _use(rows, half):
                return _Outcome.OVER
            _note_use(rows, kept, proof, now)
            keep_session(rows, kept.user_id, session, now, passkey_id=kept.passkey_id)
            return _Outcome.DONE

        return cookie if await self._transact(enter) else None

    async def _transact(self, work: Callable[[AccountRows], _Outcome]) -> bool:
        """Run *work* in a transaction; return whether its outcome is DONE.

        Raises PasskeyRefused if the outcome is COPIED.
        """
        # The error is raised only after the commit: in the transaction it would undo the log entry
        # and the e-mail about the copy.
        outcome = await self.store.transact(work)
        if outcome is _Outcome.COPIED:
            raise factor_rows.PasskeyRefused(COPIED)
        return outcome is _Outcome.DONE

    def _expect_verifier(self) -> factor_rows.WebAuthn:
        if self.verifier is None:
            raise factor_rows.PasskeyRefused(NOT_USED_HERE)
        return self.verifier

    async def _find_passkey(
        self, answer: str, user_id: UserId | None = None
    ) -> factor_rows.Passkey:
        """Return the passkey that *answer* claims to be from.

        Raises PasskeyRefused if *answer* is malformed, or if the passkey is unknown or belongs to a
        user other than *user_id*; None: any user.
        """
        credential_id = self._expect_verifier().credential_of(answer)
        passkey = await self.store.read(lambda rows: rows.passkeys.find(credential_id))
        if passkey is None:
            raise factor_rows.PasskeyRefused(NOT_KNOWN)
        if user_id not in {None, passkey.user_id}:
            raise factor_rows.PasskeyRefused(OF_ANOTHER)
        return passkey

    def _asked(self, visit: str, begun_at: UnixMs) -> bytes:
        return self.secrets.challenge("visit", f"{visit} {begun_at}")

    def _asked_of(self, session: Session, begun_at: UnixMs) -> bytes:
        return self.secrets.challenge("prove", f"{session.session_id} {begun_at}")

    def _expect_recent(self, begun: str) -> UnixMs | None:
        """Return *begun*, a challenge's time; None if malformed, or ten minutes ago or more."""
        if not (begun.isascii() and begun.isdigit() and len(begun) <= TIME_DIGITS_MAX):
            return None
        begun_at = UnixMs(int(begun))
        # A later time needs no check: only the server can make its challenge.
        return begun_at if self.clock.now() - begun_at < factor_rows.WAIT_MS else None

    def _challenge(self, ticket: str) -> bytes:
        return self.secrets.challenge("sign-in", ticket)

    async def _find(self, ticket: str) -> factor_rows.HalfSignIn | None:
        digest = self.secrets.hash(ticket)
        now = self.clock.now()
        half = await self.store.read(lambda rows: rows.sign_ins.find(digest))
        return half if half is not None and half.is_good(now) else None


def _use_alone(
    rows: AccountRows,
    kept: factor_rows.Passkey,
    proof: factor_rows.PasskeyProof,
    begun_at: UnixMs,
    at: UnixMs,
) -> _Outcome:
    """Store the use of the passkey *kept* for the challenge of *begun_at*, and return DONE.

    Return OVER if the challenge was answered before, and COPIED if the passkey may be a copy.
    Raises PasskeyRefused if the owner has recovered the account since the passkey was added: it is
    then only a second factor.
    """
    if kept.last_used_at is not None and kept.last_used_at >= begun_at:
        return _Outcome.OVER
    if proof.is_of_copy(kept):
        return _refuse_copy(rows, kept, at)
    # A thief may have added this passkey before the session whose changes were undone.  The passkey
    # remains a second factor, which is useless to a thief who does not know the new password.
    taken_back_at = rows.events.last_at(f"user:{kept.user_id}", TOOK_BACK)
    if taken_back_at is not None and kept.made_at <= taken_back_at:
        raise factor_rows.PasskeyRefused(NOT_ALONE)
    # Record no time before the challenge, whose time may come from a process with a faster clock:
    # no second answer to the challenge is then accepted.
    _note_use(rows, kept, proof, max(at, begun_at))
    return _Outcome.DONE


def _note_use(
    rows: AccountRows, kept: factor_rows.Passkey, proof: factor_rows.PasskeyProof, at: UnixMs
) -> None:
    rows.passkeys.update(kept.passkey_id, sign_count=proof.sign_count, last_used_at=at)


def _refuse_copy(rows: AccountRows, passkey: factor_rows.Passkey, at: UnixMs) -> _Outcome:
    """Log that *passkey* may be a copy, write an e-mail to its owner, and return COPIED.

    Return OVER if the owner was removed.
    """
    user_id = passkey.user_id
    kept = rows.users.get(user_id)
    if kept is None:
        return _Outcome.OVER
    rows.events.note_own(at, user_id, "used copied passkey", passkey=str(passkey.passkey_id))
    since = UnixMs(at - DAY_MS)
    kind = EmailKind.SECOND_FACTOR
    if len(rows.emails.written_to(kept.user.email, kind, since)) < NOTICES_MAX:
        rows.emails.tell_owner(kept.user, kind, {"what": COPY_REFUSED}, at)
    return _Outcome.COPIED


def _use(rows: AccountRows, half: factor_rows.HalfSignIn) -> bool:
    """Use up the ticket of *half*; return False if *half* has ended or the user was removed."""
    return rows.users.get(half.user_id) is not None and rows.sign_ins.delete(half.sign_in_id)


def _tell_of_recovery(rows: AccountRows, user_id: UserId, left: int, at: UnixMs) -> None:
    kept = rows.users.get(user_id)
    assert kept is not None, "it was read just now"
    rows.events.note_own(at, user_id, "used recovery code", left=str(left))
    what = f"a recovery code was used to sign in; codes left: {left}"
    rows.emails.tell_owner(kept.user, EmailKind.SECOND_FACTOR, {"what": what}, at)
