"""A service that is backed up while it sells, loses its disk, and is restored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from shutil import copyfile
from typing import Any, Final

import apsw

from support.scenes.engine import is_postgresql, rows_of
from support.scenes.market_engines import copied
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, decoded, opened

FORGOTTEN: Final = ("payment", "credit_entry", "credit_account", "account_event")
FINAL_S: Final = 30  # seconds after which all landed payments are final


def back_up(world: World) -> Path:
    """Copy `money.sqlite` while the service runs; return the path of the copy."""
    copy = world.path.with_name("money.copy")
    copy.unlink(missing_ok=True)
    with closing(apsw.Connection(str(world.path))) as running:
        copied(running, copy).close()
    return copy


@asynccontextmanager
async def restored(
    world: World, copy: Path, *, after_s: int = FINAL_S, **changes: Any
) -> AsyncIterator[SellingApi]:
    """Delete `money.sqlite`, restore *copy*, and open the service *after_s* seconds later.

    The previous service must be closed.  *changes* are options of the facilitator.
    """
    while world.stores:
        await world.stores.pop().close()
    for lost in world.path.parent.glob(f"{world.path.name}*"):
        lost.unlink()
    copyfile(copy, world.path)
    world.seconds(after_s)
    async with opened(world, **changes) as shop:
        yield shop


async def paid_with_key(shop: SellingApi, method: str, path: str, key: str, **changes: Any) -> str:
    """Return a PAYMENT-SIGNATURE for a request with the Idempotency-Key *key*; send no payment."""
    asked = await shop.client.request(method, path, headers={"Idempotency-Key": key})
    assert asked.status_code == 402, asked.text
    return shop.pay(decoded(asked, "payment-required"), **changes)


def forget_everything(world: World) -> None:
    """Delete all rows of payments and credits, as if an empty file were restored."""
    if is_postgresql():
        rows_of(world.path, f"TRUNCATE {', '.join(FORGOTTEN)} CASCADE")
        return
    with apsw.Connection(str(world.path)) as db:
        triggers = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA foreign_keys = OFF")
        for table in FORGOTTEN:
            db.execute(f"DELETE FROM {table}")
        for _, sql in triggers:
            db.execute(str(sql))
