"""The locks that processes hold for as long as a session of theirs lives, each by its number.

The numbers are those of one schema, and no `WriteLock` has one of them: processes of the version
before hold them too, so they stay as they are.
"""

from enum import IntEnum
from typing import Final

TRY: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), %s)"


class SessionLock(IntEnum):
    """The task of a process while it holds it; all but SERVING are held by one alone."""

    INGESTING = 100
    SERVING = 101
    AUDITING = 102
    READING_A_PAST = 103
