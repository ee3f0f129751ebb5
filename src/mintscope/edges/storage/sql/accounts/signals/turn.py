"""TurnRows."""

from collections.abc import Mapping, Sequence
from typing import Final

from mintscope.base.primitives import Mint, UnixMs
from mintscope.core.accounts.signals.turn import MintBase, SignalStanding
from mintscope.edges.storage.database import Database, ahead_ms

NOWHERE: Final = SignalStanding(seq=0, version=0, holder=b"", held_until=UnixMs(0))
STANDING: Final = "SELECT seq, version, holder, held_until FROM signal_turn"
OPEN: Final = """
INSERT INTO signal_turn (id, seq, version, holder, held_until) VALUES (1, 0, 0, ?, 0)
    ON CONFLICT DO NOTHING
"""
HOLD: Final = "UPDATE signal_turn SET holder = ?, held_until = ?"
ADVANCE: Final = "UPDATE signal_turn SET seq = ?"
TOUCH: Final = "UPDATE signal_turn SET version = version + 1"
BASES: Final = "SELECT mint, seq, packed FROM signal_base ORDER BY mint"
KEEP: Final = """
INSERT INTO signal_base (mint, seq, packed) VALUES (?, ?, ?)
    ON CONFLICT (mint) DO UPDATE SET seq = excluded.seq, packed = excluded.packed
"""
MOVE: Final = "UPDATE signal_base SET seq = ? WHERE mint = ?"
DROP: Final = "DELETE FROM signal_base WHERE mint = ?"


class SqlTurnRows:
    """Implements TurnRows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def standing(self) -> SignalStanding:
        """Return the row; before it is first written, one that no process holds."""
        row = self._db.execute(STANDING).fetchone()
        if row is None:
            return NOWHERE
        seq, version, holder, held_until = row
        return SignalStanding(
            seq=seq,
            version=version,
            holder=bytes(holder),
            held_until=UnixMs(held_until + ahead_ms(self._db)),
        )

    def hold(self, holder: bytes, until: UnixMs) -> None:
        """Let *holder* be the process that evaluates."""
        self._db.execute(OPEN, (b"",))
        self._db.execute(HOLD, (holder, until - ahead_ms(self._db)))

    def advance(self, seq: int) -> None:
        """Note how far the signals have been evaluated."""
        self._db.execute(ADVANCE, (seq,))

    def touch(self) -> None:
        """Note that a signal was made, changed or deleted."""
        self._db.execute(OPEN, (b"",))
        self._db.execute(TOUCH)

    def bases(self) -> Sequence[MintBase]:
        """Return what mints can be begun from."""
        found = self._db.execute(BASES)
        return [MintBase(Mint(mint), seq, bytes(packed)) for mint, seq, packed in found]

    def keep_bases(self, changed: Sequence[MintBase], seqs: Mapping[Mint, int]) -> None:
        """Replace the bases of *changed*, and the positions of others."""
        self._db.executemany(KEEP, [(base.mint, base.seq, base.packed) for base in changed])
        self._db.executemany(MOVE, [(seq, mint) for mint, seq in seqs.items()])

    def drop_bases(self, mints: Sequence[Mint]) -> None:
        """Forget the bases of *mints*."""
        self._db.executemany(DROP, [(mint,) for mint in mints])
