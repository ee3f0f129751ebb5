"""Names of paid answers, which are stored for KEPT_MS; for both engines.

The debit of a name and its repeats are undone once each, in any order, if their requests get no
answer.  The last one gives the credits back.

A name that has expired can be bought again.  A request of the earlier purchase that is undone later
must not undo the new one, so `at` of the row is compared with the time of the purchase of that
request.  Of a repeat, only the latest possible time may be known.
"""

from typing import Final

from mintscope.credits.ledger import KEPT_MS, Reversal
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import APART_MS_MAX, RunsMany, delete_part

UNKEEP: Final = "DELETE FROM kept_answer WHERE name = ?"
REPEAT: Final = "UPDATE kept_answer SET repeats = repeats + 1 WHERE name = ? RETURNING at"
IS_BOUGHT: Final = "SELECT EXISTS (SELECT 1 FROM kept_answer WHERE name = ? AND at >= ?)"
# The reversal of a debit also stores what the debit took.  Columns whose `owed_at` is not `at` are
# of an earlier debit of the name.
OWE: Final = """
UPDATE kept_answer SET repeats = repeats - 1, owed_at = at, owed = ?2, api_key = ?3, month = ?4,
       endpoint = ?5
 WHERE name = ?1 AND at = ?6 AND owed_at IS DISTINCT FROM at
"""
# Only as many repeats are undone as were made since the purchase.
UNREPEAT: Final = """
UPDATE kept_answer SET repeats = repeats - 1
 WHERE name = ? AND at <= ? AND repeats >= CASE WHEN owed_at = at THEN 0 ELSE 1 END
"""
# The columns of the row are in the order of the fields of Reversal.
GIVE_UP: Final = """
DELETE FROM kept_answer WHERE name = ? AND repeats < 0 AND owed_at = at
RETURNING account, owed, api_key, month, NULL, name, endpoint
"""
# Names are deleted in parts, because debits wait meanwhile; an expired name has no effect.
OLD_KEPT: Final = "SELECT name, at FROM kept_answer WHERE at < ? ORDER BY at LIMIT ?"
FORGET_KEPT: Final = "DELETE FROM kept_answer WHERE name = ? AND at = ?"  # unless bought again
FORGOTTEN_AT_ONCE: Final = 2_000  # maximum number of names deleted at once, in about 10 ms


def latest_purchase(repeated_at: UnixMs) -> UnixMs:
    """Return the latest time of the purchase of an answer that was repeated at *repeated_at*.

    It can be later than the repeat, because the clocks of two processes differ.
    """
    return UnixMs(repeated_at + 2 * APART_MS_MAX)


def given_up(db: RunsMany, reversal: Reversal, name: str) -> Reversal | None:
    """Undo the debit or the repeat of *name* that *reversal* is for.

    Return the reversal of the credits that were taken for *name* if the debit and all its repeats
    are undone; otherwise None.
    """
    if reversal.is_of_repeat:
        db.execute(UNREPEAT, (name, reversal.at))
    else:
        taken = (reversal.credit_count, reversal.key, reversal.month, reversal.endpoint)
        db.execute(OWE, (name, *taken, reversal.at))
    rows = [*db.execute(GIVE_UP, (name,))]
    return Reversal(*rows[0]) if rows else None


def forget_kept(db: RunsMany, at: UnixMs, count_max: int = FORGOTTEN_AT_ONCE) -> bool:
    """Delete up to *count_max* names of answers that are over KEPT_MS old.

    Return whether more may exist.
    """
    return delete_part(db, OLD_KEPT, FORGET_KEPT, at - KEPT_MS, count_max)
