"""The price of the payment token in one row, shared by all api processes."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final

from mintscope.credits.postgres import NOW
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database, DatabaseAccess, DatabaseError
from mintscope.payments.price_cache import PriceSource
from mintscope.payments.pricing import SNAPSHOT_S, Doubt, Quote

LASTS_MS: Final = int(SNAPSHOT_S * 1000)
LASTS_S_MIN: Final = 1.0
KEPT: Final = f"""
SELECT usd, observed_at, {NOW} - read_at FROM token_price WHERE basis = ?
"""  # noqa: S608 - a constant
# If several processes read their sources at the same moment, the first to store sets the price.
# The statement reads the clock after it has locked the row.  The time in `excluded` is older if the
# statement had to wait: compared with that time, a price that was stored meanwhile would seem to be
# of the future, and would be replaced.
KEEP: Final = f"""
INSERT INTO token_price AS kept (id, usd, observed_at, basis, read_at) VALUES (1, ?, ?, ?, {NOW})
    ON CONFLICT (id) DO UPDATE
   SET usd = excluded.usd, observed_at = excluded.observed_at, basis = excluded.basis,
       read_at = {NOW}
 WHERE kept.read_at <= {NOW} - {LASTS_MS} OR kept.read_at > {NOW} OR kept.basis <> excluded.basis
"""  # noqa: S608 - constants


@dataclass(frozen=True)
class SharedPrice:
    """A PriceSource for all processes together; once a minute one process reads *source*.

    basis   the settings of *source* as a hash: a price of another basis is not used, because it may
            be of another token
    """

    source: PriceSource
    database: DatabaseAccess[Database]
    basis: str

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price that all processes use, or the reason why it is unknown."""
        try:
            kept = await self.database.run(partial(_kept, basis=self.basis))
            if kept is not None:
                return kept
            found = await self.source.read(now)
            if isinstance(found, Doubt):
                return found
            keep = partial(_keep, found=found, basis=self.basis)
            return await self.database.run(keep) or Doubt.NO_ANSWER
        except DatabaseError:
            return Doubt.NO_ANSWER

    async def close(self) -> None:
        """Close the database."""
        self.database.close()


def _kept(db: Database, basis: str) -> Quote | None:
    row = db.execute(KEPT, (basis,)).fetchone()
    if row is None or not 0 <= row[2] < LASTS_MS:
        return None
    left_s = max((LASTS_MS - row[2]) / 1000, LASTS_S_MIN)
    return Quote(usd=Decimal(row[0]), observed_at=UnixMs(row[1]), lasts_s=left_s)


def _keep(db: Database, found: Quote, basis: str) -> Quote | None:
    db.execute(KEEP, (str(found.usd), found.observed_at, basis))
    return _kept(db, basis)
