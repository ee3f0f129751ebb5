"""The contract of every DebitLedger: it takes all credits of a debit or none, within the cap.

To test another engine, add it to `ENGINES`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.keys.key import NewKey
from mintscope.accounts.rows import AccountRows
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.kept_answers import FORGET_KEPT, OLD_KEPT
from mintscope.credits.ledger import (
    KEPT_MS,
    CapReached,
    Debit,
    Debited,
    DebitOutcome,
    Empty,
    Spent,
    TooFew,
)
from mintscope.credits.postgres import DEAD_MS, PostgresCreditBook, PostgresCreditLedger
from mintscope.credits.sqlite import CreditBook, SqliteCreditLedger
from mintscope.credits.store import CreditAccounts, GroupCreditLedger
from mintscope.kit.audit import KeyId
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.kit.time import month_end, month_of
from mintscope.payments.store.purchases import PurchasedCredits
from support.processes.processes import forking
from support.scenes.account_stores import ENGINES as ACCOUNT_ENGINES
from support.scenes.postgres import dsn_in
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

FIRST, SECOND = credit_token(1), credit_token(2)
PROCESSES: Final = 4

LEDGERS: Final[dict[str, Callable[[str, ManualClock], GroupCreditLedger]]] = {
    "sqlite": lambda place, clock: SqliteCreditLedger(Path(place), pepper=PEPPER, clock=clock),
    "postgresql": lambda place, clock: PostgresCreditLedger(place, pepper=PEPPER, clock=clock),
}
HASTY_S: Final = 0.05
HASTY_LEDGERS: Final[dict[str, Callable[[str, ManualClock], GroupCreditLedger]]] = {
    "sqlite": lambda place, clock: SqliteCreditLedger(
        Path(place), pepper=PEPPER, clock=clock, patience_s=HASTY_S
    ),
    "postgresql": lambda place, clock: PostgresCreditLedger(
        place, pepper=PEPPER, clock=clock, patience_s=HASTY_S
    ),
}
PLACES: Final[dict[str, Callable[[Path], str]]] = {
    "sqlite": lambda folder: str(folder / MONEY_FILE),
    "postgresql": dsn_in,
}


@dataclass
class Scene:
    """A ledger, and the API keys that may spend from it."""

    engine: str
    folder: Path
    clock: ManualClock
    ledger: GroupCreditLedger

    @property
    def place(self) -> str:
        return PLACES[self.engine](self.folder)

    def another(self) -> GroupCreditLedger:
        """Return a ledger on the same store, as in another process."""
        return LEDGERS[self.engine](self.place, self.clock)

    def database(self) -> Database:
        if self.engine == "sqlite":
            return SqliteDatabase(Path(self.place), "money")
        return PostgresDatabase(self.place)

    def busy(self) -> GroupCreditLedger:
        """Return a ledger on the same store that never calls `rest`, so it never cleans up."""
        ledger = self.another()
        vars(ledger)["_writing"].rest = lambda _at: None
        return ledger

    async def kill(self, ledger: GroupCreditLedger) -> None:
        """Close *ledger* without its cleanup, as if its process had died."""
        vars(ledger)["_writing"].rest = lambda _at: None
        await ledger.close()

    async def bury(self, *living: GroupCreditLedger) -> None:
        """Let *living* clean up after all other ledgers but `self.ledger`, as if these had died."""
        books = {each: vars(vars(each)["_writing"]) for each in (self.ledger, *living)}
        if self.engine == "postgresql":
            await self._rest(*books)
            with closing(PostgresDatabase(self.place)) as db:
                db.execute("UPDATE credit_writer SET since = since - ?", (DEAD_MS + 1_000,))
                db.execute(
                    "UPDATE credit_writer SET seen_at = seen_at - ? WHERE id <> ALL(?::bigint[])",
                    (DEAD_MS + 1_000, [each["_writer"] for each in books.values()]),
                )
        for book in books.values():
            if self.engine == "postgresql":
                book["_seen_at_s"] = None
            else:
                vars(book["_minutes"])["_looked_at"] = None
        await self._rest(*living)

    async def _rest(self, *ledgers: GroupCreditLedger) -> None:
        async with asyncio.TaskGroup() as resting:
            for each in ledgers:
                rest = partial(vars(each)["_writing"].rest, self.clock.now())
                resting.create_task(vars(each)["_group"].run(rest))

    def under_way(self) -> int:
        """Return the number of stream minutes in the store that may still be given back."""
        with closing(self.database()) as db:
            return int(db.execute("SELECT count(*) FROM stream_minute").get)

    def name_count(self) -> int:
        """Return the number of stored names of debits whose answer can be repeated for free."""
        with closing(self.database()) as db:
            return int(db.execute("SELECT count(*) FROM kept_answer").get)

    async def key(self, number: int, cap: int | None) -> KeyId:
        def made(rows: AccountRows) -> KeyId:
            email = EmailAddress(f"{number}@example.org")
            user = rows.users.insert(
                NewUser(kind=UserKind.AGENT, username=str(number), email=email, created_at=NOW)
            )
            digest = CredentialHash(number.to_bytes(32))
            new = NewKey(key_hash=digest, hint="...", name="", scopes=frozenset(), expires_at=None)
            key = rows.api_keys.insert(user, new, NOW, signup_id=None).key_id
            rows.api_keys.update(key, month_credits_max=cap)
            return key

        async with ACCOUNT_ENGINES[self.engine](self.folder) as store:
            return await store.transact(made)

    async def rotate(self, old: KeyId, number: int, cap: int | None) -> KeyId:
        """Replace the API key *old* with a new key of the same user, with the monthly cap *cap*."""

        def rotated(rows: AccountRows) -> KeyId:
            line = rows.api_keys.get(old)
            assert line is not None
            digest = CredentialHash(number.to_bytes(32))
            new = NewKey(key_hash=digest, hint="...", name="", scopes=frozenset(), expires_at=None)
            key = rows.api_keys.insert(line.user_id, new, NOW, signup_id=None).key_id
            rows.api_keys.update(key, month_credits_max=cap)
            rows.api_keys.update(old, replaced_by=key)
            return key

        async with ACCOUNT_ENGINES[self.engine](self.folder) as store:
            return await store.transact(rotated)

    async def expect_sound(self) -> None:
        place = self.place
        accounts = (
            CreditAccounts(CreditBook(Path(place), pepper=PEPPER))
            if self.engine == "sqlite"
            else CreditAccounts(PostgresCreditBook(place, pepper=PEPPER))
        )
        assert await accounts.contradictions() == []
        await accounts.close()


@pytest.fixture(params=LEDGERS)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    clock = ManualClock(NOW)
    place = PLACES[request.param](tmp_path)
    ledger = LEDGERS[request.param](place, clock)
    yield Scene(request.param, tmp_path, clock, ledger)
    await ledger.close()


async def test_a_cap_counts_for_a_key_and_all_its_rotations(scene: Scene) -> None:
    """Otherwise each rotation of a key could spend the cap once more."""
    account = await scene.ledger.issue(FIRST, 100, "")
    first, stranger = await scene.key(1, 5), await scene.key(2, 5)
    assert isinstance(await scene.ledger.debit(Debit(account, 3, first)), Debited)
    second = await scene.rotate(first, 3, 5)
    third = await scene.rotate(second, 4, 5)
    uncapped = await scene.rotate(third, 5, None)

    taken = [
        isinstance(await scene.ledger.debit(Debit(account, count, key)), Debited)
        for count, key in [
            *((3, second), (1, second), (2, third), (1, third), (1, third)),
            *((1, first), (5, stranger), (9, uncapped)),
        ]
    ]

    assert taken == [False, True, False, True, False, False, True, True]
    month = month_of(NOW)
    async with ACCOUNT_ENGINES[scene.engine](scene.folder) as store:
        user = await store.read(lambda rows: rows.api_keys.get(first))
        assert user is not None
        spent = await store.read(lambda rows: rows.credits.spent(user.user_id, month))
    assert spent == dict.fromkeys([first, second, third, uncapped], 14)
    await scene.expect_sound()


async def test_debits_of_one_and_of_several_credits_share_the_balance(scene: Scene) -> None:
    account, other = [await scene.ledger.issue(each, 100, "") for each in (FIRST, SECOND)]
    outcomes = await asyncio.gather(
        *(
            scene.ledger.spend(account) if n % 2 else scene.ledger.debit(Debit(account, 3))
            for n in range(100)
        ),
        scene.ledger.debit(Debit(other, 99)),
    )
    singles = sum(isinstance(each, Spent) for each in outcomes)
    threes = sum(isinstance(each, Debited) for each in outcomes[:-1])
    assert await scene.ledger.balance(account) == 100 - singles - 3 * threes
    assert all(isinstance(each, Spent | Empty | Debited | TooFew) for each in outcomes)
    assert (await scene.ledger.statement(account)).spent == singles + 3 * threes
    assert await scene.ledger.balance(other) == 1
    await scene.expect_sound()


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), max_size=20))
@pytest.mark.parametrize("engine", LEDGERS)
async def test_any_mix_of_debits_is_granted_first_come_first_served(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    credit_count: int,
    asked: list[tuple[int, int]],
) -> None:
    place = PLACES[engine](tmp_path_factory.mktemp("mix"))
    ledger = LEDGERS[engine](place, ManualClock(NOW))
    accounts = [await ledger.issue(credit_token(n), credit_count, "") for n in range(2)]
    debits = [Debit(accounts[which], count) for which, count in asked]

    outcomes = await asyncio.gather(*(ledger.debit(each) for each in debits))

    left = dict.fromkeys(accounts, credit_count)
    for debit, outcome in zip(debits, outcomes, strict=True):
        if debit.credit_count > left[debit.account]:
            assert outcome == TooFew(left[debit.account])
            continue
        left[debit.account] -= debit.credit_count
        assert outcome == Debited(debit, left[debit.account], month_of(NOW), NOW)
    await ledger.close()


async def test_simultaneous_debits_share_a_commit(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 100, "")
    taking = vars(scene.ledger)["_writing"]
    debit, sizes = taking.debit, list[int]()

    def counted(debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        sizes.append(len(debits))
        outcomes: list[DebitOutcome] = debit(debits, at)
        return outcomes

    taking.debit = counted
    await asyncio.gather(*(scene.ledger.debit(Debit(account, 1)) for _ in range(20)))
    assert sizes == [20]


async def test_a_debit_can_be_given_back_in_part(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    debited = await scene.ledger.debit(Debit(account, 5))
    assert isinstance(debited, Debited)

    await scene.ledger.give_back(debited, 2)

    assert await scene.ledger.balance(account) == 7
    assert (await scene.ledger.statement(account)).entries[0].delta == 2
    await scene.expect_sound()


async def leave(scene: Scene, *asked: Debit) -> None:
    """Request the debits *asked*; cancel the requests when they are durable, but not reported."""
    writing = vars(scene.ledger)["_writing"]
    debit = writing.debit
    loop = asyncio.get_running_loop()

    def debit_and_lose(debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        outcomes: list[DebitOutcome] = debit(debits, at)
        for each in asking:
            loop.call_soon_threadsafe(each.cancel)
        return outcomes

    writing.debit = debit_and_lose
    asking = [asyncio.ensure_future(scene.ledger.debit(each)) for each in asked]
    await asyncio.wait(asking)
    assert all(each.cancelled() for each in asking)
    writing.debit = debit


async def test_a_debit_is_given_back_if_its_client_leaves_before_the_outcome(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    key = await scene.key(1, 10)
    await leave(scene, Debit(account, 6, key))

    assert isinstance(await scene.ledger.debit(Debit(account, 10, key)), Debited)
    await scene.expect_sound()


async def leave_late(take: Callable[[], Awaitable[object]]) -> None:
    """Call *take* twice; cancel the second call when its outcome is set, before it continues."""

    async def take_and_cancel() -> None:
        await take()
        leaving.cancel()

    staying = asyncio.ensure_future(take_and_cancel())  # both calls are in one batch
    leaving = asyncio.ensure_future(take())
    await asyncio.wait([staying, leaving])
    assert leaving.cancelled()


async def test_credits_are_given_back_if_their_client_leaves_just_after_the_outcome(
    scene: Scene,
) -> None:
    account = await scene.ledger.issue(FIRST, 30, "")
    await leave_late(partial(scene.ledger.spend, account))
    await leave_late(partial(scene.ledger.debit, Debit(account, 2)))
    await leave_late(partial(scene.ledger.debit, Debit(account, 3, once="a name")))
    await leave_late(partial(scene.ledger.prepay, Debit(account, 4)))

    await asyncio.sleep(0)
    await scene.ledger.debit(Debit(account, 100))
    assert await scene.ledger.balance(account) == 30 - 1 - 2 - 3 - 4
    await scene.expect_sound()


def resting(ledger: GroupCreditLedger) -> threading.Event:
    """Return an event that is set when *ledger*'s writer has called `rest` after its writes."""
    taking = vars(ledger)["_writing"]
    rested = threading.Event()
    rest = taking.rest

    def rest_and_tell(at: UnixMs) -> None:
        rest(at)
        rested.set()

    taking.rest = rest_and_tell
    return rested


async def test_credits_owed_after_the_last_commit_are_given_back_soon(scene: Scene) -> None:
    """The service notices late that the client has left, and no other write follows."""
    account = await scene.ledger.issue(FIRST, 10, "")
    rested = resting(scene.ledger)
    debited = await scene.ledger.debit(Debit(account, 6))
    assert isinstance(debited, Debited)
    rested.clear()
    assert await asyncio.to_thread(rested.wait, 5)  # after the debit: no other write follows
    rested.clear()
    scene.ledger.owe(debited.reversal())

    assert await asyncio.to_thread(rested.wait, 5)
    assert await scene.ledger.balance(account) == 10
    await scene.expect_sound()


async def test_a_debit_that_is_cancelled_on_a_blocked_loop_is_given_back_soon(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    rested = resting(scene.ledger)
    assert await asyncio.to_thread(rested.wait, 5)  # after the grant
    rested.clear()
    asking = asyncio.ensure_future(scene.ledger.debit(Debit(account, 6)))
    for _ in range(2):  # the debit is requested, then handed to the writer
        await asyncio.sleep(0)
    assert rested.wait(5)  # blocks the loop, which therefore misses the outcome
    asking.cancel()
    rested.clear()

    assert await asyncio.to_thread(rested.wait, 5)
    assert await scene.ledger.balance(account) == 10
    await scene.expect_sound()


async def test_a_key_spends_no_more_than_its_cap_in_a_month(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 100, "")
    capped, other, free = [await scene.key(n, cap) for n, cap in ((1, 5), (2, 0), (3, None))]
    scene.clock.advance(month_end(month_of(NOW)) - 1 - NOW)  # the last moment of a month

    month = month_of(scene.clock.now())
    first = await scene.ledger.debit(Debit(account, 3, capped))
    assert isinstance(first, Debited)
    assert await scene.ledger.debit(Debit(account, 3, capped)) == CapReached(month)
    for key, credit_count, expected in (
        (capped, 2, None), (capped, 3, CapReached(month)), (other, 0, None),
        (other, 1, CapReached(month)), (free, 10**6, None),
    ):  # fmt: skip
        assert await scene.ledger.expect_cap(key, credit_count) == expected
    assert isinstance(await scene.ledger.debit(Debit(account, 2, capped)), Debited)
    assert await scene.ledger.debit(Debit(account, 1, capped)) == CapReached(month)
    assert await scene.ledger.debit(Debit(account, 1, other)) == CapReached(month)
    assert isinstance(await scene.ledger.debit(Debit(account, 50, free)), Debited)

    scene.clock.advance(month_end(month) - scene.clock.now())
    assert isinstance(await scene.ledger.debit(Debit(account, 5, capped)), Debited)
    # A debit of last month counts less last month, not this.
    await scene.ledger.give_back(first, 3)
    assert await scene.ledger.debit(Debit(account, 1, capped)) == CapReached(
        month_of(scene.clock.now())
    )
    await scene.expect_sound()


async def test_returned_credits_can_be_spent_again_under_the_cap(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 100, "")
    key = await scene.key(1, 5)
    debited = await scene.ledger.debit(Debit(account, 5, key))
    assert isinstance(debited, Debited)
    await scene.ledger.give_back(debited, 2)
    assert isinstance(await scene.ledger.debit(Debit(account, 2, key)), Debited)
    assert await scene.ledger.debit(Debit(account, 1, key)) == CapReached(month_of(NOW))


async def test_an_answer_with_a_name_is_paid_for_once_while_it_is_kept(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named, other = Debit(account, 3, once="a name"), Debit(account, 2, once="another")

    found = await asyncio.gather(*(scene.ledger.debit(named) for _ in range(4)))
    replica = scene.another()
    again = await replica.debit(named)
    await replica.close()

    outcomes = [each for each in (*found, again) if isinstance(each, Debited)]
    assert [each.is_repeat for each in outcomes] == [False, True, True, True, True]
    assert {each.balance for each in outcomes} == {7}
    assert isinstance(await scene.ledger.debit(other), Debited)
    assert await scene.ledger.balance(account) == 5
    scene.clock.advance(KEPT_MS + 1)
    paid_again = await scene.ledger.debit(named)
    assert isinstance(paid_again, Debited)
    assert not paid_again.is_repeat
    assert await scene.ledger.balance(account) == 2
    await scene.ledger.give_back(paid_again, 3)  # possible, because it was not repeated
    assert await scene.ledger.balance(account) == 5
    await scene.expect_sound()


async def test_a_repeated_debit_whose_client_leaves_changes_nothing(scene: Scene) -> None:
    """The first request has paid for the answer, so the repetition is free."""
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    assert isinstance(await scene.ledger.debit(named), Debited)
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    await leave(scene, named)
    await scene.ledger.expect_writable()
    again = await scene.ledger.debit(named)

    assert failures == []
    assert isinstance(again, Debited)
    assert (again.is_repeat, again.balance) == (True, 7)
    await scene.expect_sound()


async def test_looking_for_a_bought_name_is_no_repeat_of_its_debit(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    assert not await scene.ledger.is_bought("a name")
    bought = await scene.ledger.debit(Debit(account, 3, once="a name"))
    assert isinstance(bought, Debited)
    assert await scene.ledger.is_bought("a name")
    scene.clock.advance(KEPT_MS + 1)
    assert not await scene.ledger.is_bought("a name")

    await scene.ledger.give_back(bought, 3)
    assert await scene.ledger.balance(account) == 10


async def test_the_second_of_two_simultaneous_named_debits_is_a_repeat(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 1, once="a name")
    plain = Debit(account, 1)
    asked = (plain, named, plain, named)
    outcomes = await asyncio.gather(*(scene.ledger.debit(each) for each in asked))

    found = [each.is_repeat for each in outcomes if isinstance(each, Debited)]
    assert found == [False, False, False, True]
    assert await scene.ledger.balance(account) == 7
    await scene.expect_sound()


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_an_answer_of_a_process_that_died_is_paid_for_once(
    scene: Scene, *, is_repeated: bool
) -> None:
    """On PostgreSQL, another process refunds the answer, unless it was requested again before."""
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    dead = scene.another()
    await dead.debit(named)
    await scene.kill(dead)
    if is_repeated:
        await scene.ledger.debit(named)
    await scene.bury(scene.ledger)
    again = await scene.ledger.debit(named)

    assert isinstance(again, Debited)
    assert again.is_repeat == (is_repeated or scene.engine == "sqlite")
    assert again.balance == await scene.ledger.balance(account) == 7
    await scene.expect_sound()


async def test_the_name_of_an_answer_is_deleted_after_its_retention(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    await scene.ledger.debit(Debit(account, 3, once="a name"))
    counts = []
    for _ in range(2):
        scene.clock.advance(KEPT_MS)
        await scene.bury(scene.ledger)
        counts.append(scene.name_count())

    assert counts == [1, 0]


async def test_names_are_deleted_by_a_process_that_never_rests(tmp_path: Path) -> None:
    """Only for SQLite: on PostgreSQL a process deletes them every ten seconds, busy or not."""
    clock = ManualClock(NOW)
    place = PLACES["sqlite"](tmp_path)
    scene = Scene("sqlite", tmp_path, clock, LEDGERS["sqlite"](place, clock))
    busy = scene.busy()
    account = await busy.issue(FIRST, 1_000, "")
    counts = []
    for n in range(50):
        clock.advance(KEPT_MS // 5)
        await asyncio.gather(
            *(busy.debit(Debit(account, 1, once=f"{n} {each}")) for each in range(3))
        )
        counts.append(scene.name_count())
    await busy.close()
    await scene.ledger.close()

    assert max(counts) == 3 * 6


async def test_the_name_of_an_unpaid_answer_is_not_kept(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 2, "")
    key = await scene.key(1, 1)
    assert await scene.ledger.debit(Debit(account, 3, once="a name")) == TooFew(2)
    capped = await scene.ledger.debit(Debit(account, 2, key, once="a name"))
    assert capped == CapReached(month_of(NOW))

    bought = await scene.ledger.debit(Debit(account, 2, once="a name"))

    assert isinstance(bought, Debited)
    assert not bought.is_repeat


async def test_a_debit_for_an_answer_is_given_back_unless_it_was_repeated(
    scene: Scene,
) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    first = await scene.ledger.debit(Debit(account, 3, once="a name"))
    assert isinstance(first, Debited)
    scene.ledger.owe(first.reversal())
    await scene.ledger.expect_writable()
    await scene.ledger.give_back(first, 3)  # the row is gone: nothing is given back twice
    assert await scene.ledger.balance(account) == 10

    second = await scene.ledger.debit(Debit(account, 3, once="a name"))
    assert isinstance(second, Debited)
    assert not second.is_repeat
    repeated = await scene.ledger.debit(Debit(account, 3, once="a name"))
    assert isinstance(repeated, Debited)
    assert repeated.is_repeat
    await scene.ledger.give_back(second, 3)
    assert await scene.ledger.balance(account) == 7
    await scene.expect_sound()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_a_debit_and_its_repeats_are_given_back_in_any_order(
    scene: Scene, order: Sequence[int]
) -> None:
    """The credits of the first debit are given back once, also to the cap of its key."""
    account = await scene.ledger.issue(FIRST, 10, "")
    key = await scene.key(1, 6)
    other = scene.another()
    asked = [
        (scene.ledger, Debit(account, 6, key, once="a name")),
        (scene.ledger, Debit(account, 2, once="a name")),
        (other, Debit(account, 9, once="a name")),
    ]
    made = [(ledger, await ledger.debit(each)) for ledger, each in asked]
    balances = []
    for n in order:
        ledger, debited = made[n]
        assert isinstance(debited, Debited)
        for _ in range(1 if debited.is_repeat else 2):  # the second time has no effect
            ledger.owe(debited.reversal())
            await asyncio.sleep(0)
            await ledger.expect_writable()
            await ledger.debit(Debit(account, 100))
        balances.append(await ledger.balance(account))
    await other.close()

    assert balances == [4, 4, 10]
    again = await scene.ledger.debit(Debit(account, 6, key, once="a name"))
    assert isinstance(again, Debited)
    assert not again.is_repeat
    await scene.expect_sound()


async def test_a_repeat_by_a_process_whose_clock_is_behind_is_given_back(scene: Scene) -> None:
    """Each clock may be two seconds off, one ahead and the other behind."""
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    first = await scene.ledger.debit(named)
    behind = LEDGERS[scene.engine](scene.place, ManualClock(UnixMs(NOW - 4_000)))
    repeated = await behind.debit(named)
    assert isinstance(first, Debited)
    assert isinstance(repeated, Debited)
    assert repeated.is_repeat
    behind.owe(repeated.reversal())
    await asyncio.sleep(0)
    await behind.close()
    await scene.ledger.give_back(first, 3)

    assert await scene.ledger.balance(account) == 10
    await scene.expect_sound()


async def test_a_debit_owes_nothing_of_an_earlier_debit_of_its_name(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    earlier = await scene.ledger.debit(Debit(account, 3, once="a name"))
    await scene.ledger.debit(Debit(account, 3, once="a name"))  # answered
    assert isinstance(earlier, Debited)
    await scene.ledger.give_back(earlier, 3)
    assert await scene.ledger.balance(account) == 7
    scene.clock.advance(KEPT_MS + 1)
    later = await scene.ledger.debit(Debit(account, 2, once="a name"))
    assert isinstance(later, Debited)
    await scene.ledger.give_back(later, 2)

    assert await scene.ledger.balance(account) == 7
    await scene.expect_sound()


@pytest.mark.parametrize("is_undone_last", [False, True])
async def test_an_undone_repeat_does_not_undo_a_later_purchase_of_its_name(
    scene: Scene, *, is_undone_last: bool
) -> None:
    """The repeat began before its name expired, and is undone after the name is bought again."""
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    await scene.ledger.debit(named)  # answered
    scene.clock.advance(KEPT_MS)
    stuck = await scene.ledger.debit(named)
    scene.clock.advance(1)
    bought = await scene.ledger.debit(named)
    assert isinstance(stuck, Debited)
    assert isinstance(bought, Debited)
    assert (stuck.is_repeat, bought.is_repeat) == (True, False)
    if is_undone_last:
        await scene.ledger.debit(named)  # answered
    scene.ledger.owe(stuck.reversal())
    await scene.ledger.expect_writable()
    if not is_undone_last:
        await scene.ledger.debit(named)  # answered
    await scene.ledger.give_back(bought, 3)

    assert await scene.ledger.balance(account) == 4
    await scene.expect_sound()


async def test_an_undone_purchase_does_not_undo_a_later_purchase_of_its_name(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    earlier = await scene.ledger.debit(named)
    scene.clock.advance(KEPT_MS + 1)
    await scene.ledger.debit(named)  # answered
    assert isinstance(earlier, Debited)
    await scene.ledger.give_back(earlier, 3)
    again = await scene.ledger.debit(named)

    assert isinstance(again, Debited)
    assert (again.is_repeat, again.balance) == (True, 4)
    await scene.expect_sound()


async def test_a_repeat_of_a_dead_process_does_not_undo_a_later_purchase(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    await scene.ledger.debit(named)  # answered
    scene.clock.advance(KEPT_MS)
    dead = scene.another()
    await dead.debit(named)
    await scene.kill(dead)
    scene.clock.advance(1)
    bought = await scene.ledger.debit(named)
    await scene.bury(scene.ledger)
    await scene.ledger.debit(named)  # answered
    assert isinstance(bought, Debited)
    await scene.ledger.give_back(bought, 3)

    assert await scene.ledger.balance(account) == 4
    await scene.expect_sound()


async def test_two_debits_of_a_name_whose_clients_leave_take_nothing(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    await leave(scene, named, named)

    again = await scene.ledger.debit(Debit(account, 10, once="a name"))
    assert isinstance(again, Debited)
    assert (again.is_repeat, again.balance) == (False, 0)
    await scene.expect_sound()


async def test_two_debits_of_a_name_that_the_store_answers_too_late_take_nothing(
    scene: Scene,
) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    hasty = HASTY_LEDGERS[scene.engine](scene.place, scene.clock)
    rested = resting(hasty)
    writing = vars(hasty)["_writing"]
    debit, thawed = writing.debit, threading.Event()

    def debit_and_stall(debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        outcomes: list[DebitOutcome] = debit(debits, at)
        assert thawed.wait(10)
        return outcomes

    writing.debit = debit_and_stall
    refused = await asyncio.gather(hasty.debit(named), hasty.debit(named), return_exceptions=True)
    assert [type(each) for each in refused] == [ServiceUnavailable] * 2
    rested.clear()
    thawed.set()
    assert await asyncio.to_thread(rested.wait, 5)
    await hasty.close()

    assert await scene.ledger.balance(account) == 10
    await scene.expect_sound()


async def test_repeats_of_a_process_that_died_do_not_keep_the_credits(scene: Scene) -> None:
    """On PostgreSQL; a debit in a file is not given back after its process died."""
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    first = await scene.ledger.debit(named)
    assert isinstance(first, Debited)
    dead = scene.another()
    await dead.debit(named)
    await scene.kill(dead)
    await scene.ledger.give_back(first, 3)
    assert await scene.ledger.balance(account) == 7
    await scene.bury(scene.ledger)

    expected = 10 if scene.engine == "postgresql" else 7
    assert await scene.ledger.balance(account) == expected
    await scene.expect_sound()


async def test_a_name_that_is_bought_again_while_old_names_are_deleted_stays(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    named = Debit(account, 3, once="a name")
    await scene.ledger.debit(named)
    scene.clock.advance(KEPT_MS + 1)
    with closing(scene.database()) as db:
        old = list(db.execute(OLD_KEPT, (scene.clock.now() - KEPT_MS, 10)))
        bought = await scene.ledger.debit(named)
        db.executemany(FORGET_KEPT, old)
    repeated = await scene.ledger.debit(named)
    assert isinstance(bought, Debited)
    assert isinstance(repeated, Debited)
    assert (len(old), bought.is_repeat, repeated.is_repeat) == (1, False, True)
    assert await scene.ledger.balance(account) == 4


async def test_a_lack_of_credits_is_reported_before_the_cap(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 2, "")
    key = await scene.key(1, 1)
    assert await scene.ledger.debit(Debit(account, 3, key)) == TooFew(2)


async def begun(ledger: GroupCreditLedger, debit: Debit) -> Debited:
    outcome = await ledger.prepay(debit)
    assert isinstance(outcome, Debited)
    assert outcome.minute is not None
    return outcome


async def test_a_minute_is_taken_and_given_back_like_any_debit(scene: Scene) -> None:
    account, key = await scene.ledger.issue(FIRST, 10, ""), await scene.key(1, 4)
    asked = [Debit(account, 3, key), Debit(account, 3, key), Debit(account, 8), Debit(account, 2)]
    first, capped, few, second = [await scene.ledger.prepay(each) for each in asked]

    month = month_of(NOW)
    assert (capped, few) == (CapReached(month), TooFew(7))
    assert isinstance(first, Debited)
    assert isinstance(second, Debited)
    assert (first.debit, first.balance, first.month) == (asked[0], 7, month)
    assert scene.under_way() == 2

    await scene.ledger.give_back(first, 3)
    scene.ledger.note_sent(second)
    await begun(scene.ledger, Debit(account, 4, key))  # its commit also records the sent minute
    assert scene.under_way() == 1
    assert await scene.ledger.balance(account) == 4
    await scene.expect_sound()


async def test_minutes_of_a_process_that_died_are_given_back_once(scene: Scene) -> None:
    account, key = await scene.ledger.issue(FIRST, 20, ""), await scene.key(1, 5)
    scene.clock.advance(month_end(month_of(NOW)) - 1 - NOW)  # the last moment of a month
    dead = scene.another()
    await asyncio.gather(
        *(begun(dead, each) for each in (Debit(account, 5, key), Debit(account, 2))),
        begun(dead, Debit(account, 2)),
    )
    alive = await begun(scene.ledger, Debit(account, 1))
    await scene.kill(dead)
    for _ in range(3):
        await scene.bury(scene.ledger)
        assert await scene.ledger.balance(account) == 19
    assert scene.under_way() == 1
    entries = (await scene.ledger.statement(account)).entries
    assert sorted(each.delta for each in entries if each.kind == "reversal") == [2, 2, 5]
    assert isinstance(await scene.ledger.debit(Debit(account, 5, key)), Debited)
    scene.clock.advance(1)
    assert isinstance(await scene.ledger.debit(Debit(account, 5, key)), Debited)

    await scene.ledger.give_back(alive, 1)
    assert await scene.ledger.balance(account) == 10
    await scene.expect_sound()


@pytest.mark.parametrize("kept", ["minute", "debit", "spend", "rest", "never"])
async def test_a_minute_stays_taken_once_a_later_write_records_that_it_was_sent(
    scene: Scene, kept: str
) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    dead = scene.busy()
    dead.note_sent(await begun(dead, Debit(account, 2)))
    scene.clock.advance(1_000)
    match kept:
        case "minute":
            dead.note_sent(await begun(dead, Debit(account, 1)))
            await begun(dead, Debit(account, 1))
        case "debit":
            await dead.debit(Debit(account, 1))
            await dead.debit(Debit(account, 1))
        case "spend":
            await dead.spend(account)
            await dead.spend(account)
        case "rest":
            del vars(dead)["_writing"].rest
            await dead.close()
        case _:
            pass
    before = await scene.ledger.balance(account)
    if kept != "rest":
        await scene.kill(dead)
    await scene.bury(scene.ledger)
    # An unanswered debit is given back, too: on PostgreSQL, the last debit of any kind.
    unsure = {"minute": 1, "never": 2}.get(kept, scene.engine == "postgresql" and kept != "rest")
    assert await scene.ledger.balance(account) == before + unsure
    assert scene.under_way() == 0
    await scene.expect_sound()


async def test_a_minute_is_given_back_once_by_several_processes(scene: Scene) -> None:
    account = await scene.ledger.issue(FIRST, 10, "")
    frozen = scene.another()
    debited = [await begun(frozen, Debit(account, 2)) for _ in range(3)]
    if scene.engine == "sqlite":
        vars(vars(frozen)["_writing"])["_minutes"].close()  # alive, but taken for dead
    other = scene.another()
    await scene.bury(scene.ledger, other)
    await other.close()
    assert await scene.ledger.balance(account) == 10
    for each in debited:
        await frozen.give_back(each, 2)
    assert await scene.ledger.balance(account) == 10
    await frozen.close()
    await scene.expect_sound()


async def test_a_minute_is_given_back_to_the_successor_of_a_rotated_token(scene: Scene) -> None:
    """The minute is given back whether its process lives or dies, and not to the old token."""
    balances = []
    for number, dies in enumerate((False, True)):
        account = await scene.ledger.issue(credit_token(number), 10, "")
        ledger = scene.another()
        debited = await begun(ledger, Debit(account, 3))
        with closing(scene.database()) as db, db.transaction():
            digest = CredentialHash(number.to_bytes(32))
            assert PurchasedCredits(db).rotate(account, digest, "hint", NOW) == 7
            found = "SELECT id FROM credit_account WHERE token_hash = ?"
            successor = db.execute(found, (digest,)).get
        if dies:
            await scene.kill(ledger)
            await scene.bury(scene.ledger)
        else:
            await ledger.give_back(debited, 3)
            await ledger.close()
        both = (account, CreditAccount(successor))
        balances += [await scene.ledger.balance(each) for each in both]
    assert balances == [0, 10] * 2
    await scene.expect_sound()


def _clients(engine: str, place: str, debits: Sequence[Debit]) -> int:
    """Run *debits* as 25 concurrent clients of one process; return the number of credits taken."""

    async def ask() -> int:
        ledger = LEDGERS[engine](place, ManualClock(NOW))

        async def client(number: int) -> int:
            outcomes = [await ledger.debit(each) for each in debits[number::25]]
            return sum(each.debit.credit_count for each in outcomes if isinstance(each, Debited))

        taken = sum(await asyncio.gather(*(client(number) for number in range(25))))
        await ledger.close()
        return taken

    return asyncio.run(ask())


async def test_cap_and_balance_hold_for_100_clients_of_4_processes(scene: Scene) -> None:
    capped, poor = (
        await scene.ledger.issue(FIRST, 900, ""),
        await scene.ledger.issue(SECOND, 77, ""),
    )
    keys = {capped: await scene.key(1, 77), poor: await scene.key(2, 900)}
    loop, ask = asyncio.get_running_loop(), partial(_clients, scene.engine, scene.place)
    with ProcessPoolExecutor(PROCESSES, mp_context=forking()) as processes:
        for account, key in keys.items():
            debits = [Debit(account, 1 + n % 2, key) for n in range(100)]
            taken = await asyncio.gather(
                *(loop.run_in_executor(processes, ask, debits) for _ in range(PROCESSES))
            )
            assert sum(taken) == 77  # odd: the last credit goes to a debit of one credit
    assert [await scene.ledger.balance(each) for each in keys] == [900 - 77, 0]
    await scene.expect_sound()
