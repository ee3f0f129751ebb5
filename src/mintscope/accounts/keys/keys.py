"""Creation, lookup by hash, rotation and revocation of API keys.

A thief of a key gets no rights beyond those of the key: if a key rotates itself, the new key
expires when the old key would have expired, and only an administrator grants scopes to an agent's
key.  The owner of the account gets an e-mail about each new key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mintscope.accounts.factor_rows import User, UserKind
from mintscope.accounts.keys.key import (
    ADDRESSES_MAX,
    ANYWHERE,
    KEYS_PER_DAY_MAX,
    KEYS_PER_USER_MAX,
    KEYS_SHOWN_MAX,
    OVERLAPS_MS,
    Holder,
    KeyLine,
    KeyStatus,
    NewKey,
    are_within,
    is_within,
    new_key,
)
from mintscope.accounts.keys.scope import Scope, in_order, with_reads
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountService
from mintscope.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.accounts.session import Session
from mintscope.accounts.sessions import CAPPED, NETWORKS_CHANGED, announce, expect_session
from mintscope.accounts.signups.application import KeptApplication, subject_of
from mintscope.accounts.signups.signups import IssuedKey
from mintscope.kit.audit import Actor, KeyId, UserId, key_actor, user_actor
from mintscope.kit.credentials import ApiKey, CredentialKind, is_well_formed, make_api_key
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS


class TooManyKeys(Exception):
    """The user has too many active keys, or has created too many keys in the last 24 hours."""


@dataclass(kw_only=True, eq=False, repr=False)
class ApiKeys(AccountService):
    """The API keys of all users, found by their hashes.

    If the session has ended, a method that takes a session does nothing and raises
    SessionEnded, so that a thief cannot create a key after the owner has reset the password.
    Methods raise ServiceUnavailable.
    """

    _used_at: dict[KeyId, UnixMs] = field(default_factory=dict, init=False)
    _used_from: dict[KeyId, dict[str, UnixMs]] = field(default_factory=dict, init=False)

    async def find(self, bearer: str, client: str = "") -> Holder | None:
        """Return the holder of the API key *bearer* if it is valid; record its use in memory.

        Each call reads the key from the database, so expiry and revocation take effect at once.

        client    the client's IPv4 address or IPv6 /64; "" if unknown: a key that is limited to
                  networks is then not accepted
        """
        if not is_well_formed(CredentialKind.API_KEY, bearer):
            return None
        digest = self.secrets.hash(bearer)
        holder = await self.store.read(lambda rows: rows.api_keys.find(digest))
        now = self.clock.now()
        if holder is None or holder.key.status(now) is not KeyStatus.ACTIVE:
            return None
        if not is_within(client, holder.key.networks):
            return None
        self._note(holder.key.key_id, client, now)
        return holder

    def _note(self, key_id: KeyId, client: str, now: UnixMs) -> None:
        self._used_at[key_id] = now
        if client:
            used_from = self._used_from.setdefault(key_id, {})
            used_from.pop(client, None)  # the newest address must be last
            used_from[client] = now
            if len(used_from) > ADDRESSES_MAX:
                del used_from[next(iter(used_from))]

    async def flush(self) -> None:
        """Store the last uses of keys, and the client addresses that used the keys.

        If the database fails, raise ServiceUnavailable; the next call then stores these uses.
        """
        # Replaced before the wait, so that uses during it are stored by the next call.
        used_at = self._used_at
        self._used_at = {}
        used_from = self._used_from
        self._used_from = {}
        if not used_at:
            return

        def note(rows: AccountRows) -> None:
            rows.api_keys.note_uses(used_at)
            for key_id, addresses in sorted(used_from.items()):
                rows.key_addresses.note(key_id, addresses)

        try:
            await self.store.transact(note)
        except ServiceUnavailable:
            # Uses since then are newer, so they take precedence.
            self._used_at = used_at | self._used_at
            for key_id, newer in self._used_from.items():
                before = used_from.setdefault(key_id, {})
                for client in newer:
                    before.pop(client, None)  # the newest address must be last
                before.update(newer)
                for client in list(before)[:-ADDRESSES_MAX]:
                    del before[client]
            self._used_from = used_from
            raise

    async def of_user(self, user_id: UserId) -> Sequence[KeyLine]:
        """Return up to KEYS_SHOWN_MAX keys of the user: active ones first, newer before older."""
        now = self.clock.now()
        return await self.store.read(lambda rows: rows.api_keys.shown(user_id, now, KEYS_SHOWN_MAX))

    async def create(  # noqa: PLR0913 - one argument for each part
        self,
        session: Session,
        *,
        name: str,
        scopes: frozenset[Scope],
        lifetime_ms: int | None,
        month_credits_max: int | None = None,
        networks: str = ANYWHERE,
    ) -> IssuedKey:
        """Create a key with *scopes* and their read scopes; write an e-mail to the person.

        lifetime_ms         the milliseconds until the key expires; None: it does not expire
        month_credits_max   the most credits that the key may spend in a calendar month; None: no
                            cap
        networks            the networks from which the key is accepted, from `parse_networks`
        Raises              TooManyKeys, SessionEnded, ServiceUnavailable
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        api_key = self.draw()
        ends_at = _end(now, lifetime_ms)
        granted = with_reads(scopes)
        new = new_key(api_key, self.secrets, name, granted, ends_at, networks=networks)

        def work(rows: AccountRows) -> KeyLine:
            owner = expect_session(rows, session)
            _expect_room(rows, owner.user_id, now)
            line = rows.api_keys.insert(owner.user_id, new, now, signup_id=None)
            tell_of_key(rows, owner, line, "created", nonce, since=session.created_at, at=now)
            if month_credits_max is not None:
                cap_key(rows, line, month_credits_max, user_actor(owner.user_id), now)
            return line

        line = await self.store.transact(work)
        return IssuedKey(api_key, line, session.user.username)

    async def revoke(self, session: Session, key_id: KeyId) -> bool:
        """Revoke an active key of the user at once; return False if there is no such key."""

        def revoke(rows: AccountRows, owner: User, line: KeyLine, at: UnixMs) -> None:
            rows.api_keys.update(line.key_id, revoked_at=at)
            rows.events.note(at, user_actor(owner.user_id), "revoked", f"key:{line.key_id}")

        return await self._change(session, key_id, revoke)

    async def cap(self, session: Session, key_id: KeyId, month_credits_max: int | None) -> bool:
        """Set the credits that a key of the user may spend in a month; None removes the cap.

        Return False if the user has no active key with that id.
        """

        def cap(rows: AccountRows, owner: User, line: KeyLine, at: UnixMs) -> None:
            cap_key(rows, line, month_credits_max, user_actor(owner.user_id), at)

        return await self._change(session, key_id, cap)

    async def set_networks(self, session: Session, key_id: KeyId, networks: str) -> bool:
        """Accept a key of the user only from *networks*, in CIDR notation and separated by spaces.

        The change applies from the next request on.  If the new networks are wider, the user gets
        an e-mail.  Return False if the user has no active key with that id.
        """
        nonce = self.entropy(NONCE_BYTES)

        def change(rows: AccountRows, owner: User, line: KeyLine, at: UnixMs) -> None:
            if line.networks == networks:
                return
            set_networks(rows, line, networks, user_actor(owner.user_id), at)
            if not are_within(networks, line.networks):
                facts = {"hint": line.hint}
                announce(rows, owner, EmailKind.KEY_NETWORKS, facts, nonce, session.created_at, at)

        return await self._change(session, key_id, change)

    async def rename(self, session: Session, key_id: KeyId, name: str) -> bool:
        """Rename an active key of the user; return False if there is no such key."""

        def rename(rows: AccountRows, owner: User, line: KeyLine, at: UnixMs) -> None:
            rows.api_keys.update(line.key_id, name=name)
            rows.events.note(at, user_actor(owner.user_id), "renamed", f"key:{line.key_id}")

        return await self._change(session, key_id, rename)

    async def _change(
        self,
        session: Session,
        key_id: KeyId,
        change: Callable[[AccountRows, User, KeyLine, UnixMs], None],
    ) -> bool:
        now = self.clock.now()

        def work(rows: AccountRows) -> bool:
            owner = expect_session(rows, session)
            line = find_active(rows, owner.user_id, key_id, now)
            if line is not None:
                change(rows, owner, line, now)
            return line is not None

        return await self.store.transact(work)

    async def rotate(self, session: Session, key_id: KeyId, *, overlap_ms: int) -> IssuedKey | None:
        """Replace a key; the old key ends after *overlap_ms*, or at its own expiry if earlier.

        The new key has the same name, scopes, cap and networks, and lasts as long from now on as
        the owner set for the old key.

        Return None if the user has no active key with that id, or if it was rotated before.
        Raises    TooManyKeys, SessionEnded, ServiceUnavailable
        """
        now = self.clock.now()
        user_id = session.user.user_id
        old = await self.store.read(lambda rows: find_active(rows, user_id, key_id, now))
        if old is None:
            return None
        api_key = self.draw()
        nonce = self.entropy(NONCE_BYTES)
        ends_at = UnixMs(now + overlap_ms)

        def replace(rows: AccountRows) -> KeyLine | None:
            owner = expect_session(rows, session)
            current = find_active(rows, owner.user_id, key_id, now)
            if current is None or current.replaced_by is not None:
                return None
            end = _end(now, rows.api_keys.lifetime_ms(current))
            new = _successor(api_key, self.secrets, current, end)
            by = user_actor(owner.user_id)
            line = _replace(rows, current, new, by, ends_at=ends_at, at=now)
            tell_of_key(rows, owner, line, "rotated", nonce, since=session.created_at, at=now)
            return line

        line = await self.store.transact(replace)
        return None if line is None else IssuedKey(api_key, line, session.user.username)

    def draw(self) -> ApiKey:
        """Return a new random key."""
        return make_api_key(self.entropy(CredentialKind.API_KEY.entropy_bytes))


def _successor(
    api_key: ApiKey, secrets: AccountSecrets, old: KeyLine, expires_at: UnixMs | None
) -> NewKey:
    return new_key(api_key, secrets, old.name, old.scopes, expires_at, networks=old.networks)


def _end(now: UnixMs, lifetime_ms: int | None) -> UnixMs | None:
    return None if lifetime_ms is None else UnixMs(now + lifetime_ms)


def find_active(rows: AccountRows, user_id: UserId, key_id: KeyId, at: UnixMs) -> KeyLine | None:
    """Return an active key of the user; None if the user has no active key with that id."""
    line = rows.api_keys.get(key_id)
    if line is None or line.user_id != user_id or line.status(at) is not KeyStatus.ACTIVE:
        return None
    return line


def cap_key(
    rows: AccountRows, line: KeyLine, month_credits_max: int | None, actor: Actor, at: UnixMs
) -> None:
    """Set the cap of a key (None removes the cap), and log the change."""
    rows.api_keys.update(line.key_id, month_credits_max=month_credits_max)
    cap_text = "none" if month_credits_max is None else str(month_credits_max)
    rows.events.note(at, actor, CAPPED, f"key:{line.key_id}", credits=cap_text)


def set_networks(rows: AccountRows, line: KeyLine, networks: str, actor: Actor, at: UnixMs) -> None:
    """Set the networks from which a key is accepted, and record in the audit log that they changed.

    The log does not name the networks, because its entries are never deleted.
    """
    rows.api_keys.update(line.key_id, networks=networks)
    rows.events.note(at, actor, NETWORKS_CHANGED, f"key:{line.key_id}", hint=line.hint)


def _replace(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows, old: KeyLine, new: NewKey, by: Actor, *, ends_at: UnixMs, at: UnixMs
) -> KeyLine:
    """Store *new* as the successor of *old* with the same cap, and return it.

    *old* then expires at *ends_at* at the latest.  Raises TooManyKeys.
    """
    # Before the keys are counted: without an overlap, the old key makes room for the new one.
    rows.api_keys.update(old.key_id, expires_at=min(old.expires_at or ends_at, ends_at))
    _expect_room(rows, old.user_id, at)
    line = rows.api_keys.insert(old.user_id, new, at, signup_id=None)
    if old.month_credits_max is not None:
        cap_key(rows, line, old.month_credits_max, by, at)
    rows.api_keys.update(old.key_id, replaced_by=line.key_id)
    return line


def _expect_room(rows: AccountRows, user_id: UserId, at: UnixMs) -> None:
    """Raise TooManyKeys if the limit of active keys, or of keys created in a day, is reached."""
    active_count = rows.api_keys.count_active(user_id, at)
    made_count = rows.api_keys.count_made(user_id, UnixMs(at - DAY_MS))
    if active_count >= KEYS_PER_USER_MAX or made_count >= KEYS_PER_DAY_MAX:
        raise TooManyKeys


def tell_of_key(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows,
    owner: User,
    line: KeyLine,
    action: str,
    nonce: bytes,
    *,
    since: UnixMs,
    at: UnixMs,
    by: Actor | None = None,
) -> None:
    """Log a new key, and write an e-mail to the account's address.

    The e-mail does not contain the key's name: the address may be a stranger's if it is unverified,
    and strangers must get no texts of users.

    action   "created" or "rotated": the name of the action in the audit log
    since    the beginning of the session that created the key, or *at* if a key created it: the
             undo link undoes changes from then on
    by       the actor in the audit log; None: the owner
    """
    actor = user_actor(owner.user_id) if by is None else by
    subject = f"key:{line.key_id}"
    rows.events.note(at, actor, action, subject, hint=line.hint)
    facts = {"hint": line.hint, "scopes": ", ".join(in_order(line.scopes))}
    announce(rows, owner, EmailKind.NEW_KEY, facts, nonce, since, at)


WHY_LENGTH_MAX: Final = 1_000


class KeyDenied(Enum):
    """A reason why a key is not rotated, or cannot request scopes."""

    ENDED = auto()  # during the request, the key expired or was revoked, or its user was removed
    ROTATED = auto()  # the key was already rotated
    KEY_USED = auto()  # the Idempotency-Key was used for a rotation with another overlap
    # The user has no application: usually a person, who can create keys with any scopes.
    OF_A_PERSON = auto()


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The key that a rotation created, and the time at which the old key ends."""

    issued: IssuedKey
    before_ends_at: UnixMs


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """Lets the holder of an API key rotate it, revoke it, or ask for scopes.

    Methods raise ServiceUnavailable.
    """

    keys: ApiKeys

    async def rotate(
        self, holder: Holder, bearer: str, *, overlap_ms: int, redelivery_key: str | None
    ) -> RotatedKey | KeyDenied:
        """Replace *bearer*, the key of *holder*; the old key ends after *overlap_ms* at the latest.

        A repetition with the same *redelivery_key* returns the same new key, while both keys are
        valid.  Return KeyDenied if the key has ended, or was rotated by another request, also if
        that request had the same *redelivery_key* and another overlap.
        Raises    TooManyKeys, ServiceUnavailable
        """
        keys = self.keys
        now = keys.clock.now()
        if redelivery_key is None:
            drawn = keys.draw()
        else:
            drawn = keys.secrets.successor_of(bearer, redelivery_key)
        old = holder.key
        nonce = keys.entropy(NONCE_BYTES)
        ends_at = UnixMs(now + overlap_ms)

        def rotate(rows: AccountRows) -> tuple[KeyLine, UnixMs | None] | KeyDenied:
            current = rows.api_keys.get(old.key_id)
            if current is None or current.status(now) is not KeyStatus.ACTIVE:
                return KeyDenied.ENDED
            if current.replaced_by is not None:
                # A repetition with the same Idempotency-Key derives the same key; a random key is
                # never found.
                made = rows.api_keys.find(keys.secrets.hash(drawn))
                is_again = made is not None and made.key.key_id == current.replaced_by
                if made is None or not is_again or made.key.status(now) is not KeyStatus.ACTIVE:
                    return KeyDenied.ROTATED
                if not _may_overlap(current, made.key, overlap_ms):
                    return KeyDenied.KEY_USED
                return made.key, current.expires_at
            owner = rows.users.get(current.user_id)
            if owner is None:
                return KeyDenied.ENDED
            # Read in this transaction: the owner may have changed the key since the request was
            # admitted.
            new = _successor(drawn, keys.secrets, current, current.expires_at)
            by = key_actor(old.key_id)
            line = _replace(rows, current, new, by, ends_at=ends_at, at=now)
            tell_of_key(rows, owner.user, line, "rotated", nonce, since=now, at=now, by=by)
            return line, min(current.expires_at or ends_at, ends_at)

        made = await keys.store.transact(rotate)
        if isinstance(made, KeyDenied):
            return made
        line, before_ends_at = made
        assert before_ends_at is not None, "it was rotated"
        return RotatedKey(IssuedKey(drawn, line, holder.username), before_ends_at)

    async def revoke(self, holder: Holder) -> None:
        """Revoke the key of *holder* at once."""
        now = self.keys.clock.now()
        key_id = holder.key.key_id

        def revoke(rows: AccountRows) -> None:
            # Someone else may have revoked the key since it was admitted: that time stays.
            if find_active(rows, holder.key.user_id, key_id, now) is not None:
                rows.api_keys.update(key_id, revoked_at=now)
                rows.events.note(now, key_actor(key_id), "revoked", f"key:{key_id}")

        await self.keys.store.transact(revoke)

    async def ask(
        self, holder: Holder, scopes: frozenset[Scope], why: str
    ) -> frozenset[Scope] | KeyDenied:
        """Ask the administrators for those of *scopes* that the key lacks; return these scopes.

        Return KeyDenied if the key does not belong to an agent with an application.

        why   the reason, for the administrators
        """
        now = self.keys.clock.now()
        actor = user_actor(holder.key.user_id)
        lacking = scopes - holder.key.scopes

        def ask(rows: AccountRows) -> frozenset[Scope] | KeyDenied:
            kept = _application(rows, holder.key.user_id)
            if kept is None:
                return KeyDenied.OF_A_PERSON
            if lacking:
                signup_id = kept.application.signup_id
                rows.applications.update(
                    signup_id, asked_scopes=lacking, asked_at=now, asked_why=why
                )
                named = ", ".join(in_order(lacking))
                rows.events.note(now, actor, "asked", subject_of(signup_id), scopes=named)
            return lacking

        return await self.keys.store.transact(ask)

    async def asked(self, holder: Holder) -> frozenset[Scope]:
        """Return the scopes that the key has requested and that await a decision."""

        def read(rows: AccountRows) -> frozenset[Scope]:
            kept = _application(rows, holder.key.user_id)
            if kept is None or kept.application.asked_at is None:
                return frozenset()
            return kept.application.form.asked_scopes

        return await self.keys.store.read(read)


def _may_overlap(old: KeyLine, new: KeyLine, overlap_ms: int) -> bool:
    """Return whether the rotation of *old* into *new* may have asked for *overlap_ms*."""
    # The overlap is not stored.  The old key ends after it, or earlier at its own expiry.
    assert old.expires_at is not None, "it was rotated"
    beside_ms = old.expires_at - new.created_at
    if beside_ms in OVERLAPS_MS.values():
        return beside_ms == overlap_ms
    return beside_ms < overlap_ms


def _application(rows: AccountRows, user_id: UserId) -> KeptApplication | None:
    """Return the application of an agent; None if the user is a person or has no application."""
    owner = rows.users.get(user_id)
    if owner is None or owner.user.kind is not UserKind.AGENT:
        return None
    kept = rows.applications.find(owner.user.email)
    return kept if kept is not None and kept.owner == user_id else None
