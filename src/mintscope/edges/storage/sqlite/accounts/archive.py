"""What becomes of sessions, letters and proofs that are over."""

from typing import Final

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.edges.storage.sqlite.accounts.file import AccountFile

DELETE_SESSIONS: Final = "DELETE FROM session WHERE seen_at <= ? OR created_at <= ?"

DELETE_LETTERS: Final = "DELETE FROM letter WHERE coalesce(sent_at, given_up_at) < ?"

# Not those of letters that are still there: they are written anew from them.
DELETE_PROOFS: Final = """
DELETE FROM proof WHERE min(coalesce(used_at, expires_at), expires_at) < ?
   AND NOT EXISTS (SELECT 1 FROM letter WHERE letter.proof = proof.id)
"""


class SqliteAccountArchive:
    """Implements Archive of `housekeeping`."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def purge(self, *, idle_since: UnixMs, begun_before: UnixMs, done_before: UnixMs) -> None:
        """Delete sessions that are over, and letters and proofs that were done with long ago."""

        def purge(db: apsw.Connection) -> None:
            db.execute(DELETE_SESSIONS, (idle_since, begun_before))
            db.execute(DELETE_LETTERS, (done_before,))
            db.execute(DELETE_PROOFS, (done_before,))

        await self._file.write(purge)
