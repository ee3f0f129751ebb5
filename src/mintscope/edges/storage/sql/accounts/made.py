"""MadeRows."""

from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.holdings.made import MadeThing
from mintscope.edges.storage.database import Database

FIND: Final = "SELECT asked, thing FROM made_thing WHERE key_hash = ?"
INSERT: Final = "INSERT INTO made_thing (key_hash, asked, thing, made_at) VALUES (?, ?, ?, ?)"
PURGE: Final = "DELETE FROM made_thing WHERE made_at < ?"


class SqlMadeRows:
    """Implements MadeRows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find(self, key_hash: CredentialHash) -> MadeThing | None:
        """Return what was made with that Idempotency-Key."""
        row = self._db.execute(FIND, (key_hash,)).fetchone()
        return None if row is None else MadeThing(bytes(row[0]), row[1])

    def insert(self, key_hash: CredentialHash, made: MadeThing, at: UnixMs) -> None:
        """Note what was made with it."""
        self._db.execute(INSERT, (key_hash, made.asked, made.thing_id, at))

    def purge(self, before: UnixMs) -> None:
        """Forget what was made before then."""
        self._db.execute(PURGE, (before,))
