"""Money and market of an installation: emptied or exchanged stores are refused."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from mintscope.app.stores.postgres import open_tables
from mintscope.kit.credentials import hash_credential
from mintscope.kit.errors import UnusableStore
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.identity import Beside, settle
from mintscope.kit.sql.sqlite import SqliteDatabase
from support.scenes.postgres import dsn_in
from support.scenes.stores import PEPPER

END: Final = "if this is meant to be a new one$"
NOW: Final = UnixMs(1_763_640_000_000)
OLD, NEW, THIRD = "0" * 32, "1" * 32, "2" * 32
FRESH: Final = Beside(
    where="here", has_pepper=False, is_new=False, version="0.1.0", commit="", now=NOW
)
MEANT: Final = FRESH._replace(is_new=True)
Open = Callable[[Path, str], Database]


def sqlite(folder: Path, kind: str) -> Database:
    folder.mkdir(exist_ok=True)
    return SqliteDatabase(folder / f"{kind}.sqlite", kind)


def postgresql(folder: Path, kind: str) -> Database:
    folder.mkdir(exist_ok=True)
    return open_tables(dsn_in(folder), kind)


@pytest.fixture(params=[sqlite, postgresql])
def opened(request: pytest.FixtureRequest) -> Open:
    found: Open = request.param
    return found


@pytest.fixture
def stores(opened: Open, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    with (
        closing(opened(tmp_path / "one", "money")) as money,
        closing(opened(tmp_path / "one", "market")) as market,
    ):
        yield money, market


@pytest.fixture
def others(opened: Open, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    with (
        closing(opened(tmp_path / "other", "money")) as money,
        closing(opened(tmp_path / "other", "market")) as market,
    ):
        yield money, market


def use(money: Database) -> None:
    """Store a hash of the pepper in *money*, as the service did before stores had names."""
    with money.transaction():
        money.execute(
            "INSERT INTO pepper (id, check_hash) VALUES (1, ?)",
            (bytes(hash_credential("mintscope", pepper=PEPPER)),),
        )


def names(stores: tuple[Database, Database]) -> list[object]:
    money, market = stores
    return [
        money.execute("SELECT name FROM installation").get,
        market.execute("SELECT name FROM market_installation").get,
    ]


def test_a_first_start_names_both_stores_and_later_ones_change_nothing(
    stores: tuple[Database, Database],
) -> None:
    assert settle(*stores, FRESH, OLD) == OLD
    assert names(stores) == [OLD, OLD]
    assert settle(*stores, FRESH._replace(has_pepper=True), NEW) == OLD
    assert settle(*stores, MEANT, NEW) == OLD
    assert names(stores) == [OLD, OLD]


def test_stores_of_older_versions_get_a_name(stores: tuple[Database, Database]) -> None:
    use(stores[0])
    assert settle(*stores, FRESH._replace(has_pepper=True), OLD) == OLD
    assert names(stores) == [OLD, OLD]


def test_emptied_money_beside_its_market_needs_the_option_new(
    stores: tuple[Database, Database], others: tuple[Database, Database]
) -> None:
    settle(*stores, FRESH, OLD)
    (empty, _), (_, market) = others, stores

    with pytest.raises(UnusableStore, match=rf"the money of installation 00000000 .* --new {END}"):
        settle(empty, market, FRESH, NEW)
    assert names((empty, market)) == [None, OLD]
    assert settle(empty, market, MEANT, NEW) == NEW
    assert names((empty, market)) == [NEW, NEW]


def test_emptied_money_beside_its_pepper_needs_the_option_new(
    stores: tuple[Database, Database],
) -> None:
    beside = FRESH._replace(has_pepper=True)

    with pytest.raises(UnusableStore, match=rf"the pepper of its credentials .* --new {END}"):
        settle(*stores, beside, OLD)
    assert names(stores) == [None, None]
    assert settle(*stores, beside._replace(is_new=True), OLD) == OLD


def test_money_of_another_installation_needs_the_option_new(
    stores: tuple[Database, Database], others: tuple[Database, Database]
) -> None:
    settle(*stores, FRESH, OLD)
    settle(*others, FRESH, NEW)
    (money, _), (_, market) = others, stores

    with pytest.raises(UnusableStore, match=rf"money is of 1+, the market of 0+: .* --new {END}"):
        settle(money, market, FRESH, THIRD)
    assert names((money, market)) == [NEW, OLD]
    assert settle(money, market, MEANT, THIRD) == NEW
    assert names((money, market)) == [NEW, NEW]


def test_a_new_market_gets_the_name_of_the_money(
    stores: tuple[Database, Database], others: tuple[Database, Database]
) -> None:
    settle(*stores, FRESH, OLD)
    (money, _), (_, empty) = stores, others

    assert settle(money, empty, FRESH._replace(has_pepper=True), NEW) == OLD
    assert names((money, empty)) == [OLD, OLD]


@pytest.mark.parametrize("kind", ["money", "market"])
def test_a_store_of_a_newer_version_is_refused_with_the_needed_version(
    opened: Open, stores: tuple[Database, Database], tmp_path: Path, kind: str
) -> None:
    for version in ("0.2.0", "0.10.1", "0.9"):
        settle(*stores, FRESH._replace(version=version), OLD)
    for database, name in zip(stores, ("money", "market"), strict=True):
        row = {"number": 9_999, "name": "9999_new.sql", "kind": name}
        if opened is postgresql:
            row["least"] = 9_999
        with database.transaction():
            columns = ", ".join(row)
            marks = ", ".join("?" for _ in row)
            database.execute(
                f"INSERT INTO migration ({columns}) VALUES ({marks})",
                tuple(row.values()),
            )

    with pytest.raises(UnusableStore, match=r"it needs mintscope 0\.10\.1 or newer, this is "):
        opened(tmp_path / "one", kind).close()


class Interrupted:
    """A database that lets another process run between its first answer and the next query."""

    def __init__(self, database: Database, comes: Callable[[], object]) -> None:
        self._database = database
        self._comes: Callable[[], object] | None = comes

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        answer = self._database.execute(statement, values)
        if self._comes is None:
            return answer
        comes, self._comes = self._comes, None
        row = answer.fetchone()
        comes()
        return Answered(None if row is None else row[0])

    def transaction(self) -> AbstractContextManager[Any]:
        return self._database.transaction()


class Answered(NamedTuple):
    get: object


@pytest.mark.parametrize("which", [0, 1])
def test_two_processes_that_start_concurrently_agree_on_the_name(
    stores: tuple[Database, Database], which: int
) -> None:
    """The other process names both stores after this process has read the name in one."""
    both: list[Any] = list(stores)
    both[which] = Interrupted(stores[which], lambda: settle(*stores, FRESH, OLD))

    assert settle(both[0], both[1], FRESH, NEW) == OLD
    assert set(names(stores)) == {OLD}
