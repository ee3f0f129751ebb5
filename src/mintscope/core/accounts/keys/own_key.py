"""Operations of an API key on itself: rotation, revocation, and requests for scopes.

A stolen key must gain its thief nothing beyond the key itself: a rotated key expires when its
owner said that the old one would, only an administrator grants scopes, and the owner of the
account gets an e-mail.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from mintscope.base.credentials import ApiKey
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import KeptApplication, subject_of
from mintscope.core.accounts.audit import note, user_actor
from mintscope.core.accounts.keys.api_key import Holder, KeyId, KeyLine, KeyStatus, NewKey, new_key
from mintscope.core.accounts.keys.api_keys import ApiKeys, replace_key, tell_of_key
from mintscope.core.accounts.keys.scope import Scope, in_order
from mintscope.core.accounts.secrets import NONCE_BYTES
from mintscope.core.accounts.signups.exchange import IssuedKey
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import UserId, UserKind

WHY_LENGTH_MAX: Final = 1_000


class KeyDenied(Enum):
    """The reason why a key is not rotated, or may not ask for scopes."""

    ENDED = auto()  # since the request began
    ROTATED = auto()  # before
    OF_A_PERSON = auto()  # people create keys with any scopes themselves


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The key that a rotation created, and the time at which the old one ends."""

    issued: IssuedKey
    before_ends_at: UnixMs


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """The verbs that the holder of an API key has over it."""

    keys: ApiKeys

    async def rotate(
        self, holder: Holder, bearer: str, *, overlap_ms: int, redelivery_key: str | None
    ) -> RotatedKey | KeyDenied:
        """Create a key like *bearer*, that of *holder*, which then ends after *overlap_ms*.

        With the *redelivery_key* of the rotation the same key is returned again, as long as the
        old one is valid.
        Raises    TooManyKeys, ServiceUnavailable
        """
        keys = self.keys
        now = keys.clock.now()
        drawn = keys.draw() if redelivery_key is None else self._successor(bearer, redelivery_key)
        old = holder.key
        nonce = keys.entropy(NONCE_BYTES)
        new = new_key(drawn, keys.secrets, old.name, old.scopes, old.expires_at)
        ends_at = UnixMs(now + overlap_ms)
        made = await keys.store.transact(
            lambda rows: _rotate(rows, old.key_id, new, nonce=nonce, ends_at=ends_at, at=now)
        )
        if isinstance(made, KeyDenied):
            return made
        line, before = made
        assert before.expires_at is not None, "it was rotated"
        return RotatedKey(IssuedKey(drawn, line, holder.username), before.expires_at)

    async def revoke(self, holder: Holder) -> None:
        """Revoke the key of *holder* at once."""
        now = self.keys.clock.now()
        await self.keys.store.transact(lambda rows: _revoke(rows, holder.key, now))

    async def ask(
        self, holder: Holder, scopes: frozenset[Scope], why: str
    ) -> frozenset[Scope] | KeyDenied:
        """Ask the administrators for *scopes*; return those that the key lacks."""
        now = self.keys.clock.now()
        return await self.keys.store.transact(lambda rows: _ask(rows, holder.key, scopes, why, now))

    async def asked(self, holder: Holder) -> frozenset[Scope]:
        """Return the scopes that were asked for and await a decision."""

        def read(rows: AccountRows) -> frozenset[Scope]:
            kept = _application(rows, holder.key.user_id)
            if kept is None or kept.application.asked_at is None:
                return frozenset()
            return kept.application.form.asked_scopes

        return await self.keys.store.read(read)

    def _successor(self, bearer: str, redelivery_key: str) -> ApiKey:
        return self.keys.secrets.successor_of(bearer, redelivery_key)


def _rotate(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows, key_id: KeyId, new: NewKey, *, nonce: bytes, ends_at: UnixMs, at: UnixMs
) -> tuple[KeyLine, KeyLine] | KeyDenied:
    """Return the new key and the old one."""
    old = rows.api_keys.get(key_id)
    if old is None or old.status(at) is not KeyStatus.ACTIVE:
        return KeyDenied.ENDED
    if old.replaced_by is not None:
        made = rows.api_keys.find(new.key_hash)
        is_again = made is not None and made.key.key_id == old.replaced_by
        if made is None or not is_again or made.key.status(at) is not KeyStatus.ACTIVE:
            return KeyDenied.ROTATED
        return made.key, old
    owner = rows.users.get(old.user_id)
    if owner is None:
        return KeyDenied.ENDED
    line = replace_key(rows, old, new, ends_at=ends_at, at=at)
    tell_of_key(rows, owner.user, line, "rotated", nonce, since=at, at=at)
    before = rows.api_keys.get(key_id)
    assert before is not None, "keys are never deleted"
    return line, before


def _revoke(rows: AccountRows, key: KeyLine, at: UnixMs) -> None:
    rows.api_keys.update(key.key_id, revoked_at=at)
    note(rows.events, at, user_actor(key.user_id), "revoked", f"key:{key.key_id}")


def _ask(
    rows: AccountRows, key: KeyLine, scopes: frozenset[Scope], why: str, at: UnixMs
) -> frozenset[Scope] | KeyDenied:
    kept = _application(rows, key.user_id)
    if kept is None:
        return KeyDenied.OF_A_PERSON
    lacking = scopes - key.scopes
    if lacking:
        signup_id = kept.application.signup_id
        rows.applications.update(signup_id, asked_scopes=lacking, asked_at=at, asked_why=why)
        named = ", ".join(in_order(lacking))
        note(rows.events, at, user_actor(key.user_id), "asked", subject_of(signup_id), scopes=named)
    return lacking


def _application(rows: AccountRows, user_id: UserId) -> KeptApplication | None:
    """Return the application of an agent; None for a person's account."""
    owner = rows.users.get(user_id)
    if owner is None or owner.user.kind is not UserKind.AGENT:
        return None
    kept = rows.applications.find(owner.user.email)
    return kept if kept is not None and kept.owner == user_id else None
