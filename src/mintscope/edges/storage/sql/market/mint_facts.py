"""Facts of mints: short transactions beside a running ingest."""

from collections.abc import Sequence
from typing import Final

import msgspec

from mintscope.base.primitives import Mint, UnixMs
from mintscope.base.time import HOUR_MS
from mintscope.core.market.mint_facts import MintFacts
from mintscope.edges.storage.database import (
    Database,
    DatabaseAccess,
    Rows,
    Values,
    unavailable_on_database_error,
)
from mintscope.edges.storage.sql.market.tracking import UNAVAILABLE

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
ONE: Final = "SELECT facts FROM mint_fact JOIN mint ON mint_fact.mint = id WHERE address = ?"
DUE: Final = """
SELECT address FROM mint LEFT JOIN mint_fact ON mint_fact.mint = id
 WHERE since_slot IS NOT NULL AND (read_at_ms IS NULL OR read_at_ms < ?)
 ORDER BY read_at_ms NULLS FIRST, address LIMIT ?
"""


class SqlMintFacts:
    """Implements MintFactStore."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def save(self, mint: Mint, facts: MintFacts) -> bool:
        """Keep *facts*; False if *mint* has no row, or newer facts of this hour are kept."""
        row = {
            "mint": mint,
            "slot": facts.slot,
            "read_at_ms": facts.read_at_ms,
            "facts": msgspec.json.encode(facts),
        }
        return bool((await self._written(SAVE, row)).get)

    async def missed(self, mint: Mint, read_at_ms: UnixMs) -> None:
        """Note that *mint* was no mint then; what was kept of it stays."""
        await self._written(MISSED, {"mint": mint, "read_at_ms": read_at_ms})

    async def one(self, mint: Mint) -> MintFacts | None:
        """Return what is kept of *mint*."""
        kept = (await self._read(ONE, (mint,))).get
        return None if kept is None else msgspec.json.decode(kept, type=MintFacts)

    async def due(self, before_ms: UnixMs, mints_max: int) -> Sequence[Mint]:
        """Return up to *mints_max* tracked mints not read since *before_ms*, the oldest first."""
        rows = await self._read(DUE, (before_ms, mints_max))
        return [Mint(address) for (address,) in rows]

    async def close(self) -> None:
        """Let go of the database."""
        self._access.close()

    async def _read(self, statement: str, values: Values) -> Rows:
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: db.execute(statement, values))

    async def _written(self, statement: str, values: Values) -> Rows:
        def write(db: Database) -> Rows:
            with db.transaction():
                return db.execute(statement, values)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(write)
