"""Actions of people on their accounts in one transaction, and the rules for passwords.

Strangers cannot lock the owner out, because wrong guesses are counted by client address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from string import digits, punctuation
from typing import Final, Protocol

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import (
    KeptUser,
    NewUser,
    PasskeyId,
    UnusableName,
    User,
    UserKind,
)
from mintscope.accounts.mail.email import EmailKind, may_write, may_write_reset, tell_owner
from mintscope.accounts.rows import AccountRows, find_person, use_proof
from mintscope.accounts.session import (
    SESSIONS_PER_USER_MAX,
    NewProof,
    NewSession,
    ProofId,
    Purpose,
    Session,
    SessionEnded,
    SessionId,
)
from mintscope.accounts.sessions import (
    TOOK_BACK,
    Ended,
    announce,
    drop_factors,
    end_sessions,
    end_since,
    expect_session,
    unlink_telegram,
)
from mintscope.accounts.wallets.credits import hand_over
from mintscope.kit.audit import UserId, user_actor
from mintscope.kit.limits import SITE_SHARES, Limit, Limiter, LimitKey, Limits, site_key, take_all
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_S

LENGTH_MIN: Final = 10
LENGTH_MAX: Final = 200
QUARTER_S: Final = 900
COMMONEST_COUNT: Final = 10_000
# Common words that zxcvbn has in lists other than `passwords`, and words of this service.
BESIDE: Final = frozenset({
    "", "abc", "abcd", "abcde", "abcdef", "administrator", "alexander", "andrew", "anthony", "asd",
    "ashley", "basketball", "bitcoin", "california", "charlotte", "chocolate", "christopher",
    "crypto", "daniel", "elizabeth", "ethereum", "george", "happy", "jackson", "jennifer",
    "jessica", "joshua", "login", "matthew", "michael", "michelle", "mintscope", "nicholas",
    "nicole", "nothing", "patrick", "qaz", "qwe", "qwer", "robert", "solana", "taylor", "thomas",
    "user", "victoria", "wallet", "william", "zaq", "zaqwsxzaq", "zxc",
})  # fmt: skip
NO_LETTERS: Final = digits + punctuation + " "
WITHOUT: Final = str.maketrans("", "", NO_LETTERS)
DISGUISES: Final = str.maketrans("@$0", "aso")  # characters that people type in place of others


class WrongPassword(Exception):
    """The address or the password is wrong; the error does not say which."""


class WeakPassword(ValueError):
    """The text is not an acceptable password; the message is safe to show to the user."""


class Hasher(Protocol):
    """Hashes passwords; a hash takes long on purpose."""

    async def hash(self, password: str) -> str:
        """Return the hash of *password*, for storage."""

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether *stored* is a hash of *password*.

        If *stored* is None, return False after the time that a comparison takes.
        """


def expect_password(text: str, *, email: str) -> str:
    """Return *text* if it is a valid password.  Raises WeakPassword."""
    if not LENGTH_MIN <= len(text) <= LENGTH_MAX:
        raise WeakPassword(
            f"expected {LENGTH_MIN} to {LENGTH_MAX} characters; there were {len(text)}"
        )
    is_own = text.lower() in {email, email.partition("@")[0]}
    if is_own or len(set(text)) <= 3 or _is_common(text):  # noqa: PLR2004
        raise WeakPassword("expected a password that is harder to guess")
    return text


@cache
def commonest_passwords() -> frozenset[str]:
    """Return the 10,000 most common passwords of zxcvbn's lists, and the texts in BESIDE.

    The first call takes about 80 ms, so the api calls this in a thread at startup.  Only the lists
    of zxcvbn are read: the imported package would keep 11 MB of ranked lists in memory.
    """
    return BESIDE.union(_lists_of_zxcvbn()["passwords"][:COMMONEST_COUNT])


def _lists_of_zxcvbn() -> Mapping[str, Sequence[str]]:
    package = find_spec("zxcvbn")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name("frequency_lists.py")
    spec = spec_from_file_location("frequency_lists", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    lists: Mapping[str, Sequence[str]] = module.FREQUENCY_LISTS
    return lists


def _is_common(text: str) -> bool:
    """Return whether *text* is a common password, possibly repeated or with digits or signs added.

    Examples are password12, Qwerty12345!, 1234567890, 1q2w3e4r5t, qwe123qwe123.
    """
    common = commonest_passwords()
    plain = text.lower()
    core = plain.strip(NO_LETTERS).translate(DISGUISES)
    stem = plain.translate(WITHOUT)
    return any(
        each in common or (each == 2 * (word := each[: len(each) // 2]) and word in common)
        for each in (plain, core, stem)
    )


class TooManyAttempts(Exception):
    """Too many recent guesses, or new accounts; retry after *retry_after_s* seconds.

    A guess is a wrong password, code or passkey.
    """

    def __init__(self, retry_after_s: int) -> None:
        seconds = "second" if retry_after_s == 1 else "seconds"
        super().__init__(f"Too many attempts: wait {retry_after_s} {seconds}.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """The limits of sign-ins.

    one      the most wrong passwords for one e-mail address from one client address, in 15 minutes
    all      the most wrong passwords and passkeys from one client address, in 15 minutes
    signups  the most accounts created from one client address in an hour; from an IPv6 /48, four
             times as many
    """

    one: int = 10
    all: int = 50
    signups: int = 20


class LoginLimit:
    """Counts guesses before they are checked, so that parallel guesses do not exceed the limit."""

    def __init__(self, admitted: LoginLimits, limits: Limits) -> None:
        def window(name: str, count: int, window_s: int) -> Limiter:
            return limits.limiter(Limit(name=name, count=count, window_s=window_s))

        self._one = window("guesses", admitted.one, QUARTER_S)
        self._all = window("guesses of a client", admitted.all, QUARTER_S)
        self._signups = window("accounts of a client", admitted.signups, HOUR_S)
        self._site = window("accounts of a site", SITE_SHARES * admitted.signups, HOUR_S)

    async def begin(self, email: EmailAddress, client_address: str) -> None:
        """Count a guess by a client at the password of *email*.  Raises TooManyAttempts."""
        await _expect_room((self._all, client_address), (self._one, _pair(email, client_address)))

    async def forgive(self, email: EmailAddress, client_address: str) -> None:
        """Undo the count of a guess that was correct or was not checked."""
        await self._all.give_back(client_address)
        await self._one.give_back(_pair(email, client_address))

    async def begin_passkey(self, client_address: str) -> None:
        """Count a sign-in or proof by passkey as a guess by the client.  Raises TooManyAttempts."""
        await _expect_room((self._all, client_address))

    async def forgive_passkey(self, client_address: str) -> None:
        """Undo the count of a sign-in or proof by passkey that was correct or was not checked."""
        await self._all.give_back(client_address)

    async def sign_up(self, client_address: str) -> None:
        """Count an account created from *client_address*.  Raises TooManyAttempts."""
        await _expect_room((self._site, site_key(client_address)), (self._signups, client_address))


def _pair(email: EmailAddress, client_address: str) -> LimitKey:
    return f"{client_address} {email}"


async def _expect_room(*windows: tuple[Limiter, LimitKey]) -> None:
    denied = await take_all(windows)
    if denied is not None:
        raise TooManyAttempts(denied.retry_after_s)


NO_USER: Final = 0


class EmailTaken(Exception):
    """A person's account has this address, or an account can still restore it by an undo link."""


def add(rows: AccountRows, new: NewUser, session: NewSession) -> None:
    """Add a person and the person's first session.  Raises EmailTaken."""
    is_held = rows.proofs.holds(new.email, NO_USER, new.created_at)
    if is_held or find_person(rows.users, new.email) is not None:
        raise EmailTaken
    user_id = rows.users.insert(new)
    rows.sessions.insert(user_id, session, new.created_at)
    _note(rows, user_id, "signed up", new.created_at)


def open_session(rows: AccountRows, kept: KeptUser, session: NewSession, at: UnixMs) -> bool:
    """Add a session.  Raises WrongPassword if the password has changed.

    Return False if the person has a second factor: the sign-in then waits for this factor,
    and the cookie is the ticket of the sign-in.
    """
    if not _has_password(rows, kept):
        raise WrongPassword
    now_kept = rows.users.get(kept.user.user_id)
    if now_kept is not None and now_kept.user.has_second_factor:
        rows.sign_ins.insert(kept.user.user_id, session.cookie_hash, at)
        return False
    keep_session(rows, kept.user.user_id, session, at)
    return True


def keep_session(
    rows: AccountRows,
    user_id: UserId,
    session: NewSession,
    at: UnixMs,
    *,
    passkey_id: PasskeyId | None = None,
) -> None:
    """Add a session, and delete the user's oldest sessions beyond SESSIONS_PER_USER_MAX.

    passkey_id   the passkey of the sign-in, for the audit log; None: it used no passkey
    """
    rows.sessions.insert(user_id, session, at)
    newest = sorted(each.session_id for each in rows.sessions.of_user(user_id))
    rows.sessions.delete(newest[:-SESSIONS_PER_USER_MAX])
    if passkey_id is None:
        _note(rows, user_id, "signed in", at)
    else:
        _note(rows, user_id, "signed in with passkey", at, passkey=str(passkey_id))


def note_use(rows: AccountRows, session_id: SessionId, at: UnixMs) -> None:
    """Store the time of a use of the session, unless a later time is stored."""
    session = rows.sessions.get(session_id)
    if session is not None and session.seen_at < at:
        rows.sessions.update(session_id, seen_at=at)


def end_session(rows: AccountRows, user_id: UserId, session_id: SessionId) -> bool:
    """End a session of the user; return False if it does not exist."""
    session = rows.sessions.get(session_id)
    if session is None or session.user.user_id != user_id:
        return False
    rows.sessions.delete([session_id])
    return True


def prove(rows: AccountRows, session: Session, kept: KeptUser, at: UnixMs) -> None:
    """Record that the password of *kept* was entered.

    Raises SessionEnded if the session has ended or the password has changed.
    """
    expect_session(rows, session)
    if not _has_password(rows, kept):
        raise SessionEnded
    rows.sessions.update(session.session_id, proved_at=at)


def change_password(
    rows: AccountRows, session: Session, password_hash: str, nonce: bytes, at: UnixMs
) -> None:
    """Store a new password hash, end other sessions and reset links, and e-mail the owner."""
    owner = expect_session(rows, session)
    _set_password(rows, owner, password_hash, at)
    announce(rows, owner, EmailKind.PASSWORD_CHANGED, {}, nonce, session.created_at, at)
    end_sessions(rows, owner.user_id, but=session)
    _note(rows, owner.user_id, "changed password", at)


def rename(rows: AccountRows, session: Session, username: str, at: UnixMs) -> None:
    """Rename the account.  Raises UnusableName if the name is taken, SessionEnded."""
    owner = expect_session(rows, session)
    if username == owner.username:
        return
    if rows.users.is_taken(username):
        raise UnusableName("this name is taken")
    rows.users.update(owner.user_id, username=username)
    _note(rows, owner.user_id, "renamed account", at)


def request_reset(rows: AccountRows, email: EmailAddress, nonce: bytes, at: UnixMs) -> None:
    """Create a proof for *email*, but write an e-mail only if a person has this address.

    A proof is created for any address, so that the time taken does not show if an account exists.
    """
    kept = find_person(rows.users, email)
    subject = NO_USER if kept is None else kept.user.user_id
    proof_id = rows.proofs.insert(NewProof(Purpose.RESET_PASSWORD, subject, email, nonce, at))
    if kept is not None and may_write_reset(rows.emails, email, at):
        rows.emails.insert(EmailKind.RESET_PASSWORD, email, {}, proof_id, at)


def reset(
    rows: AccountRows, proof_id: ProofId, password_hash: str, since: UnixMs | None, at: UnixMs
) -> Ended | None:
    """Store a new password hash, and end all sessions; return None if the proof is invalid.

    If the address was not verified before, also revoke the keys, remove the second factors
    and unlink the Telegram chat.

    since   changes at this time or later are also undone; None: no changes are undone
    """
    proof = use_proof(rows.proofs, proof_id, Purpose.RESET_PASSWORD, at)
    kept = None if proof is None else rows.users.get(UserId(proof.subject))
    if proof is None or kept is None or kept.user.email != proof.email:
        return None
    user_id = kept.user.user_id
    revoked = 0
    if kept.user.verified_at is None:  # a stranger may have created the keys
        revoked = rows.api_keys.revoke_active(user_id, at)
        drop_factors(rows, user_id)
        unlink_telegram(rows, user_id, user_actor(user_id), at)
        rows.proofs.use_up(Purpose.VERIFY_EMAIL, user_id, at)
    if since is None:
        ended = Ended(sessions=end_sessions(rows, user_id), keys=revoked)
    else:
        ended = end_since(rows, user_id, since, at)
        ended = replace(ended, keys=ended.keys + revoked)
        rows.proofs.use_up(Purpose.CHANGE_EMAIL, user_id, at)
        _note(rows, user_id, TOOK_BACK, at)
    rows.users.update(user_id, verified_at=at)
    owner = replace(kept.user, verified_at=at)
    _set_password(rows, owner, password_hash, at)
    tell_owner(rows.emails, owner, EmailKind.PASSWORD_CHANGED, {}, at)
    _note(rows, user_id, "reset password", at, keys_revoked=str(ended.keys))
    return ended


def request_verification(rows: AccountRows, session: Session, nonce: bytes, at: UnixMs) -> None:
    """Write an e-mail with a verification link, if `may_write` allows it.  Raises SessionEnded."""
    owner = expect_session(rows, session)
    if may_write(rows.emails, owner, EmailKind.VERIFY_EMAIL, at):
        new = NewProof(Purpose.VERIFY_EMAIL, owner.user_id, owner.email, nonce, at)
        proof_id = rows.proofs.insert(new)
        rows.emails.insert(EmailKind.VERIFY_EMAIL, owner.email, {}, proof_id, at)


def verify(rows: AccountRows, session: Session, proof_id: ProofId, at: UnixMs) -> bool:
    """Record that the address is verified; return False if the proof is no longer valid."""
    owner = expect_session(rows, session)
    if use_proof(rows.proofs, proof_id, Purpose.VERIFY_EMAIL, at) is None:
        return False
    rows.proofs.use_up(Purpose.VERIFY_EMAIL, owner.user_id, at)
    rows.users.update(owner.user_id, verified_at=at)
    _note(rows, owner.user_id, "verified mailbox", at)
    return True


def agents_of(rows: AccountRows, email: EmailAddress) -> Sequence[User]:
    """Return the agents with the verified address *email*, newest first.

    Other agents are omitted: anyone can sign up an agent with an address that is not theirs.
    """
    agents = rows.users.of_email(email, UserKind.AGENT)
    return [kept.user for kept in agents if kept.user.verified_at is not None]


def request_claim(
    rows: AccountRows, session: Session, agent_id: UserId, nonce: bytes, at: UnixMs
) -> None:
    """E-mail a claim link, if the person may claim the agent.  Raises SessionEnded."""
    agent = _find_agent(rows, expect_session(rows, session), agent_id)
    if agent is not None:
        new = NewProof(Purpose.CLAIM_AGENT, agent_id, agent.email, nonce, at)
        proof_id = rows.proofs.insert(new)
        facts = {"username": agent.username}
        rows.emails.insert(EmailKind.CLAIM_AGENT, agent.email, facts, proof_id, at)


def claim(rows: AccountRows, session: Session, proof_id: ProofId, at: UnixMs) -> User | None:
    """Move the agent's contents to the person, and remove and return the agent's account.

    Return None if the proof is invalid, or if the person may not claim the agent.
    """
    owner = expect_session(rows, session)
    proof = rows.proofs.get(proof_id)
    agent = None if proof is None else _find_agent(rows, owner, UserId(proof.subject))
    if agent is None or use_proof(rows.proofs, proof_id, Purpose.CLAIM_AGENT, at) is None:
        return None
    rows.users.hand_over(agent.user_id, owner.user_id)
    hand_over(rows, agent.user_id, owner.user_id, at)
    rows.users.update(agent.user_id, removed_at=at)
    actor = user_actor(owner.user_id)
    subject = f"user:{owner.user_id}"
    rows.events.note(at, actor, "claimed agent", subject, agent=f"user:{agent.user_id}")
    return agent


def _find_agent(rows: AccountRows, owner: User, agent_id: UserId) -> User | None:
    """Return the agent *agent_id* if *owner* and the agent have verified the same address."""
    if owner.verified_at is None:  # anyone can sign up with an address that is not theirs
        return None
    agents = agents_of(rows, owner.email)
    return next((agent for agent in agents if agent.user_id == agent_id), None)


def _has_password(rows: AccountRows, kept: KeptUser) -> bool:
    """Return whether the user was not removed and still has the password of *kept*."""
    now_kept = rows.users.get(kept.user.user_id)
    return now_kept is not None and now_kept.password_hash == kept.password_hash


def _set_password(rows: AccountRows, owner: User, password_hash: str, at: UnixMs) -> None:
    """Store the password hash, and make earlier reset links invalid."""
    rows.users.update(owner.user_id, password_hash=password_hash)
    rows.proofs.use_up(Purpose.RESET_PASSWORD, owner.user_id, at)


def _note(rows: AccountRows, user_id: UserId, action: str, at: UnixMs, **detail: str) -> None:
    rows.events.note(at, user_actor(user_id), action, f"user:{user_id}", **detail)
