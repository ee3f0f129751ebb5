"""API keys at work: found by their hash, made, rotated and revoked by their owners."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mintscope.base.clock import Clock
from mintscope.base.credentials import (
    ApiKey,
    CredentialHash,
    CredentialKind,
    hint,
    is_well_formed,
    make_api_key,
)
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.keys.api_key import Holder, KeyId, KeyLine, KeyStatus, NewKey
from mintscope.core.accounts.keys.scope import Scope, with_reads
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signups.exchange import IssuedKey
from mintscope.core.accounts.user import UserId


class TooManyKeys(Exception):
    """The user has as many active keys, or has made as many in a day, as anybody may."""


class ApiKeyStore(Protocol):
    """Where keys are kept; every verb that writes is one transaction with its audit row."""

    async def find(self, key_hash: CredentialHash) -> Holder | None:
        """Return the key of that hash, in whatever state, unless its user was removed."""
        ...

    async def note_uses(self, used_at: Mapping[KeyId, UnixMs]) -> None:
        """Write down when keys were used, where that is later than what is written."""
        ...

    async def of_user(self, user_id: UserId, now: UnixMs) -> Sequence[KeyLine]:
        """Return the user's keys, active first, newest first; KEYS_SHOWN_MAX at most."""
        ...

    async def add(self, session: Session, key: NewKey, at: UnixMs) -> KeyLine:
        """Keep a key of the session's person, and write to the mailbox.

        Raises    TooManyKeys; SessionEnded
        """
        ...

    async def revoke(self, session: Session, key_id: KeyId, at: UnixMs) -> bool:
        """End an active key of the session's person; False if there is none.

        Raises    SessionEnded
        """
        ...

    async def replace(
        self, session: Session, old: KeyLine, key: NewKey, *, ends_at: UnixMs, at: UnixMs
    ) -> KeyLine | None:
        """Keep *key* in the place of *old*, which ends at *ends_at* if not before.

        None if the old one is not active any more, or replaced already.
        Raises    TooManyKeys, if both would be active; SessionEnded
        """
        ...


class ApiKeys:
    """Knows every key by its hash.

    Whatever is done in a session is undone if the session turns out to have been ended: whoever
    resets a password must find no key that was being made at that moment.
    """

    def __init__(
        self,
        *,
        store: ApiKeyStore,
        secrets: AccountSecrets,
        clock: Clock,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._entropy = entropy
        self._used_at: dict[KeyId, UnixMs] = {}

    async def find(self, bearer: str) -> Holder | None:
        """Return who holds the API key *bearer*, if it is good now; its use is noted.

        One indexed read: expiry and revocation count at once.  The use is kept in memory and
        written in batches, so that no request waits for it.
        """
        if not is_well_formed(CredentialKind.API_KEY, bearer):
            return None
        holder = await self._store.find(self._secrets.hash(bearer))
        now = self._clock.now()
        if holder is None or holder.key.status(now) is not KeyStatus.ACTIVE:
            return None
        self._used_at[holder.key.key_id] = now
        return holder

    async def flush(self) -> None:
        """Write down when keys were last used; called every half a minute and at the end.

        What could not be written is written the next time.
        Raises    ServiceUnavailable
        """
        used_at, self._used_at = self._used_at, {}
        if not used_at:
            return
        try:
            await self._store.note_uses(used_at)
        except ServiceUnavailable:
            self._used_at = used_at | self._used_at
            raise

    async def of_user(self, user_id: UserId) -> Sequence[KeyLine]:
        """Return the user's keys, active first, newest first; of many that ended, the newest."""
        return await self._store.of_user(user_id, self._clock.now())

    async def create(
        self, session: Session, *, name: str, scopes: frozenset[Scope], lifetime_ms: int | None
    ) -> IssuedKey:
        """Make a key, and write to the person's mailbox that there is one.

        A scope that writes brings the one that reads the same area.
        Raises    TooManyKeys; SessionEnded; ServiceUnavailable
        """
        now = self._clock.now()
        api_key = self._draw()
        new = self._new(api_key, name, with_reads(scopes), _end(now, lifetime_ms))
        line = await self._store.add(session, new, now)
        return IssuedKey(api_key, line, session.user.username)

    async def revoke(self, session: Session, key_id: KeyId) -> bool:
        """End a key of the user's own at once; False if there is none that is active.

        Raises    SessionEnded; ServiceUnavailable
        """
        return await self._store.revoke(session, key_id, self._clock.now())

    async def rotate(self, session: Session, key_id: KeyId, *, overlap_ms: int) -> IssuedKey | None:
        """Make a key like the old one, which ends after *overlap_ms* or at its own expiry.

        The new one has the old one's name and scopes, and from now on as long a life as the old
        one had.  None if there is no active key of the user's own by that id that was not
        rotated before.
        Raises    TooManyKeys, if with an overlap both would be active; SessionEnded;
                  ServiceUnavailable
        """
        now = self._clock.now()
        lines = await self._store.of_user(session.user.user_id, now)
        old = next((line for line in lines if line.key_id == key_id), None)
        if old is None or old.status(now) is not KeyStatus.ACTIVE:
            return None
        api_key = self._draw()
        new = self._new(api_key, old.name, old.scopes, _end(now, old.lifetime_ms))
        ends_at = UnixMs(now + overlap_ms)
        line = await self._store.replace(session, old, new, ends_at=ends_at, at=now)
        return None if line is None else IssuedKey(api_key, line, session.user.username)

    def _draw(self) -> ApiKey:
        return make_api_key(self._entropy(CredentialKind.API_KEY.entropy_bytes))

    def _new(
        self, api_key: ApiKey, name: str, scopes: frozenset[Scope], expires_at: UnixMs | None
    ) -> NewKey:
        return NewKey(
            key_hash=self._secrets.hash(api_key),
            hint=f"...{hint(api_key)}",
            name=name,
            scopes=scopes,
            expires_at=expires_at,
        )


def _end(now: UnixMs, lifetime_ms: int | None) -> UnixMs | None:
    return None if lifetime_ms is None else UnixMs(now + lifetime_ms)
