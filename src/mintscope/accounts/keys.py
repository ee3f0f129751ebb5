"""API keys at work: found by their hash, made, rotated and revoked by their owners."""

from collections.abc import Sequence

from mintscope.accounts.api_key import Holder, KeyId, KeyLine
from mintscope.accounts.exchange import IssuedKey
from mintscope.accounts.scope import Scope
from mintscope.accounts.session import Session
from mintscope.accounts.user import UserId


class TooManyKeys(Exception):
    """The user has as many active keys as anybody may have."""


class KeyDesk:
    """Knows every key by its hash."""

    async def find(self, bearer: str) -> Holder | None:
        """Return who holds the API key *bearer*, if it is good now; its use is noted.

        One indexed read: expiry and revocation count at once.  The use is kept in memory and
        written in batches, so that no request waits for it.
        """
        raise NotImplementedError

    async def flush(self) -> None:
        """Write down when keys were last used; called every half a minute and at the end."""
        raise NotImplementedError

    async def of_user(self, user_id: UserId) -> Sequence[KeyLine]:
        """Return the user's keys, active first, newest first."""
        raise NotImplementedError

    async def create(
        self, session: Session, *, name: str, scopes: frozenset[Scope], lifetime_ms: int | None
    ) -> IssuedKey:
        """Make a key, and write to the person's mailbox that there is one.

        Raises    TooManyKeys
        """
        raise NotImplementedError

    async def revoke(self, session: Session, key_id: KeyId) -> bool:
        """End a key of the user's own at once; False if there is none that is active."""
        raise NotImplementedError

    async def rotate(self, session: Session, key_id: KeyId, *, overlap_ms: int) -> IssuedKey | None:
        """Make a key like the old one, which ends after *overlap_ms* or at its own expiry.

        The new one has the old one's name, scopes and remaining lifetime span.  None if there is
        no active key of the user's own by that id.
        """
        raise NotImplementedError
