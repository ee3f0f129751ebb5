"""Settings that api processes at one database share: the first writes, the others compare."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg import AsyncConnection

from mintscope.base.errors import UnusableStore
from mintscope.edges.storage.postgres.processes.locks import TRY, SessionLock

HASHED: Final = "sha256:"
SHARE: Final = "SELECT pg_advisory_lock_shared(hashtext(current_schema()), %s)"
LET_GO: Final = "SELECT pg_advisory_unlock(hashtext(current_schema()), %s)"
KEPT: Final = "SELECT name, value FROM replica_settings"
KEEP: Final = "INSERT INTO replica_settings (name, value) VALUES (%s, %s)"


async def join(connection: AsyncConnection[Any], settings: Mapping[str, str]) -> None:
    """Be one of the api processes as long as *connection* lives.

    settings   by name; one that begins with `sha256:` is a secret, and is not shown
    Raises     UnusableStore if those that run have others
    """
    if await _asked(connection, TRY, SessionLock.SERVING):
        async with connection.transaction():
            await connection.execute("DELETE FROM replica_settings")
            await connection.cursor().executemany(KEEP, sorted(settings.items()))
        await _asked(connection, SHARE, SessionLock.SERVING)
        await _asked(connection, LET_GO, SessionLock.SERVING)
        return
    await _asked(connection, SHARE, SessionLock.SERVING)
    rows = await (await connection.execute(KEPT)).fetchall()
    if told := differences(dict(rows), settings):
        raise UnusableStore(f"expected the settings of the api processes that run: {told}")


def differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Return in words where settings differ that both have, empty if they do not."""
    return "; ".join(
        f"{name} differs"
        if HASHED in theirs[name] + ours[name]
        else f"{name} is {theirs[name]} there and {ours[name]} here"
        for name in sorted(theirs.keys() & ours.keys())  # one of them may be of another version
        if theirs[name] != ours[name]
    )


async def _asked(connection: AsyncConnection[Any], statement: str, lock: int) -> Any:
    row = await (await connection.execute(statement.encode(), (lock,))).fetchone()
    assert row is not None
    return row[0]
