"""What mints are, on SQLite: short immediate transactions beside a running ingest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from mintscope.base.primitives import Mint, UnixMs
from mintscope.base.time import HOUR_MS
from mintscope.core.market.mint_facts import MintFacts
from mintscope.edges.storage.sqlite.connection import (
    open_store,
    snapshot,
    transaction,
    unavailable_on_error,
)
from mintscope.edges.storage.sqlite.market.tracking import UNAVAILABLE

# A slot that a node named and that is absurd must not stay the newest for ever.
NEWER_MS: Final = HOUR_MS

SAVE: Final = f"""
INSERT INTO mint_fact (mint, slot, read_at_ms, facts)
SELECT id, :slot, :read_at_ms, :facts FROM mint WHERE address = :mint
    ON CONFLICT (mint) DO UPDATE SET
       slot = excluded.slot, read_at_ms = excluded.read_at_ms, facts = excluded.facts
 WHERE excluded.slot >= mint_fact.slot OR excluded.read_at_ms > mint_fact.read_at_ms + {NEWER_MS}
RETURNING 1
"""  # noqa: S608  a constant
MISSED: Final = """
INSERT INTO mint_fact (mint, slot, read_at_ms) SELECT id, 0, :read_at_ms FROM mint
 WHERE address = :mint
    ON CONFLICT (mint) DO UPDATE SET read_at_ms = excluded.read_at_ms
"""
ONE: Final = "SELECT facts FROM mint_fact JOIN mint ON mint = id WHERE address = ?"
DUE: Final = """
SELECT address FROM mint LEFT JOIN mint_fact ON mint = id
 WHERE since_slot IS NOT NULL AND (read_at_ms IS NULL OR read_at_ms < ?)
 ORDER BY read_at_ms, address LIMIT ?
"""


class SqliteMintFacts:
    """Implements MintFactStore."""

    def __init__(self, path: Path) -> None:
        self._db = open_store(path, "market")

    async def save(self, mint: Mint, facts: MintFacts) -> bool:
        """Keep *facts*; False if *mint* has no row, or newer facts of this hour are kept."""
        row = {
            "mint": mint,
            "slot": facts.slot,
            "read_at_ms": facts.read_at_ms,
            "facts": msgspec.json.encode(facts),
        }
        with unavailable_on_error(UNAVAILABLE, kind="market"), transaction(self._db) as db:
            return bool(db.execute(SAVE, row).get)

    async def missed(self, mint: Mint, read_at_ms: UnixMs) -> None:
        """Note that *mint* was no mint then; what was kept of it stays."""
        row = {"mint": mint, "read_at_ms": read_at_ms}
        with unavailable_on_error(UNAVAILABLE, kind="market"), transaction(self._db) as db:
            db.execute(MISSED, row)

    async def one(self, mint: Mint) -> MintFacts | None:
        """Return what is kept of *mint*."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), snapshot(self._db) as db:
            kept = db.execute(ONE, (mint,)).get
        return None if kept is None else msgspec.json.decode(kept, type=MintFacts)

    async def due(self, before_ms: UnixMs, mints_max: int) -> Sequence[Mint]:
        """Return up to *mints_max* tracked mints not read since *before_ms*, the oldest first."""
        with unavailable_on_error(UNAVAILABLE, kind="market"), snapshot(self._db) as db:
            return [Mint(address) for (address,) in db.execute(DUE, (before_ms, mints_max))]

    async def close(self) -> None:
        """Let go of the file."""
        self._db.close()
