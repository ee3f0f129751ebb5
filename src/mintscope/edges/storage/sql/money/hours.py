"""HourRows."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from mintscope.core.accounts.hours import HourSeries, Series
from mintscope.edges.storage.database import Database

ADD: Final = """
INSERT INTO operation_hour (hour, series, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (hour, series) DO UPDATE SET value = operation_hour.value + excluded.value
"""
RAISE: Final = """
INSERT INTO operation_hour (hour, series, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (hour, series) DO UPDATE SET value = excluded.value
     WHERE operation_hour.value < excluded.value
"""
REPLACE: Final = """
INSERT INTO operation_hour (hour, series, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (hour, series) DO UPDATE SET value = excluded.value
"""
KEPT_BY: Final[dict[Series, str]] = {HourSeries.LAG_MS: RAISE, HourSeries.FUND: REPLACE}
SINCE: Final = "SELECT series, hour, value FROM operation_hour WHERE hour >= ?"


class SqlHourRows:
    """Implements HourRows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, hour: int, values: Mapping[Series, int]) -> None:
        """Add *values* to those of the hour; of LAG_MS the highest is kept, of FUND the last."""
        for series, value in sorted(values.items()):
            self._db.execute(KEPT_BY.get(series, ADD), (hour, str(series), value))

    def since(self, hour: int) -> Mapping[Series, Mapping[int, int]]:
        """Return the numbers of *hour* and later, by series and hour."""
        found: dict[Series, dict[int, int]] = defaultdict(dict)
        for series, at, value in self._db.execute(SINCE, (hour,)):
            found[str(series)][int(at)] = int(value)
        return found

    def purge(self, before: int) -> None:
        """Delete the numbers of hours before *before*."""
        self._db.execute("DELETE FROM operation_hour WHERE hour < ?", (before,))
