"""A data_dir that an earlier version has written: payments, credits, accounts and candles."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE
from mintscope.kit.clock import SystemClock

DATA: Final = Path(__file__).parents[2] / "stores" / "data"
FACTS: Final[dict[str, Any]] = json.loads((DATA / "old_facts.json").read_text())
# The newest block gets a new time, because data older than a day is never served.
NEWEST_BLOCK_IS_NEW: Final = "UPDATE header SET time = ? WHERE seq = (SELECT max(seq) FROM header)"


def old_folder(folder: Path) -> Path:
    """Write a data_dir of an earlier version into *folder*, and return *folder*."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, dump in ((MONEY_FILE, "old_money.sql"), (MARKET_FILE, "old_market.sql")):
        with closing(apsw.Connection(str(folder / name))) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"BEGIN; {(DATA / dump).read_text()} COMMIT")
            if name == MARKET_FILE:
                db.execute(NEWEST_BLOCK_IS_NEW, (SystemClock().now() // 1000,))
    pepper = folder / PEPPER_FILE
    pepper.write_text(FACTS["pepper"] + "\n")
    pepper.chmod(0o600)
    return folder
