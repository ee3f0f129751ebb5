"""Work that was refused because the file was locked is not done later."""

from pathlib import Path
from typing import Final

import apsw
import pytest

from mintscope.app.stores.sqlite import account_connections
from mintscope.kit.errors import ServiceUnavailable

PATIENCE_S: Final = 0.05  # far less than the writer waits for the lock
NOTE: Final = """
INSERT INTO account_event (at, actor, action, subject) VALUES (1, 'service', 'signed up', 'user:1')
"""


async def test_refused_work_is_not_done_later(tmp_path: Path) -> None:
    path = tmp_path / "money.sqlite"
    file = account_connections(path, patience_s=PATIENCE_S)
    other = apsw.Connection(str(path))
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ServiceUnavailable):
            await file.write(lambda db: db.execute(NOTE))
        other.execute("ROLLBACK")
        await file.close()  # finishes the work that the writer has begun

        assert other.execute("SELECT * FROM account_event").fetchall() == []
    finally:
        other.close()
