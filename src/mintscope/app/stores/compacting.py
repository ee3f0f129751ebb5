"""Compaction of the files of an installation, so that they take no unused space."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw

from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.kit.errors import StoreUnavailable
from mintscope.kit.sql.sqlite import SIZES, USUAL_SIZES

KINDS = {MARKET_FILE: "market", MONEY_FILE: "money", WEBHOOKS_FILE: "webhooks"}


def compact_files(folder: Path) -> Sequence[tuple[str, int, int]]:
    """Compact each file of *folder*, which must not be in use; return names and sizes.

    The bytes are those before and after.  From then on a market file returns unused pages.
    Compaction needs as much free space as the file has bytes.
    Raises StoreUnavailable; the file is then unchanged.
    """
    return [_compact(folder / name) for name in KINDS if (folder / name).exists()]


def _compact(path: Path) -> tuple[str, int, int]:
    before = path.stat().st_size
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            if SIZES.get(KINDS[path.name], USUAL_SIZES).shrinks:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error as cause:
        raise StoreUnavailable(f"expected to rewrite {path}: {cause}") from cause
    return path.name, before, path.stat().st_size
