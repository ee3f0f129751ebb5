"""Credits of users, on every engine: moves neither create nor lose credits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.keys.key import NewKey
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.sessions import NotPossible, remove_user
from mintscope.accounts.wallets.credits import (
    AccountCredits,
    Deposited,
    TooFew,
    Withdrawn,
    hand_over,
)
from mintscope.app.stores import postgres, sqlite
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Debit, Debited
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.rotation import RotationDenied
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.audit import COMMAND_LINE, KeyId, UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialHash, hash_credential, hint
from mintscope.kit.primitives import CreditAccount, Mint, UnixMs, Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.payment import Landed, Payment, TopUp
from mintscope.payments.ports import Begun, Budget, Removed
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore
from support.scenes.account_stores import ENGINES
from support.scenes.payments.audited import violations_of
from support.scenes.payments.pending_payments import AGAIN_MS, new_payment
from support.scenes.postgres import dsn_in
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

FIRST_DAY = NOW // DAY_MS


@dataclass
class Scene:
    """One installation: its ledger, its users, its payments and its books."""

    ledger: GroupCreditLedger
    store: AccountStore
    credits: AccountCredits
    payments: SqlPaymentStore
    books: SqlPaymentBooks
    clock: ManualClock

    async def user(self, number: int) -> UserId:
        new = NewUser(
            kind=UserKind.AGENT,
            username=str(number),
            email=EmailAddress(f"{number}@example.org"),
            created_at=NOW,
        )
        return await self.store.transact(lambda rows: rows.users.insert(new))

    async def key(self, user_id: UserId) -> KeyId:
        digest = CredentialHash(user_id.to_bytes(32))
        new = NewKey(key_hash=digest, hint="...", name="", scopes=frozenset(), expires_at=None)
        return await self.store.transact(
            lambda rows: rows.api_keys.insert(user_id, new, NOW, signup_id=None).key_id
        )

    async def balance(self, user_id: UserId) -> int:
        return (await self.credits.summary(user_id)).balance

    async def expect_sound(self) -> None:
        assert (await violations_of(self.books)) == []


async def opened(engine: str, folder: Path, stack: AsyncExitStack) -> Scene:
    clock = ManualClock(NOW)
    store = await stack.enter_async_context(ENGINES[engine](folder))
    ledger: GroupCreditLedger
    if engine == "sqlite":
        path = folder / MONEY_FILE
        ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=clock)
        payments, books = sqlite.payment_store(path), sqlite.payment_books(path)
    else:
        dsn = dsn_in(folder)
        ledger = PostgresCreditLedger(dsn, pepper=PEPPER, clock=clock)
        payments, books = postgres.payment_store(dsn), postgres.payment_books(dsn)
    for each in (ledger, payments, books):
        stack.push_async_callback(each.close)
    secrets = AccountSecrets.derive(PEPPER)
    found = AccountCredits(store=store, secrets=secrets, clock=clock, entropy=bytes)
    return Scene(ledger, store, found, payments, books, clock)


@pytest.fixture(params=ENGINES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        yield await opened(request.param, tmp_path, stack)


MOVES = st.lists(
    st.tuples(st.sampled_from(["deposit", "withdraw", "spend"]), st.integers(1, 9)), max_size=12
)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(MOVES)
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_books_agree_after_any_moves_of_credits(
    tmp_path_factory: pytest.TempPathFactory, engine: str, moves: list[tuple[str, int]]
) -> None:
    async with AsyncExitStack() as stack:
        scene = await opened(engine, tmp_path_factory.mktemp("moves"), stack)
        user_id = await scene.user(1)
        token = await scene.ledger.issue(credit_token(1), 20, "")
        held, on_token, drawn = 0, 20, 0
        for number, (what, count) in enumerate(moves):
            key = f"key-{number:020}"
            if what == "deposit":
                moved = await scene.credits.deposit(user_id, token, count, key)
                assert isinstance(moved, Deposited) == (count <= on_token)
                if isinstance(moved, Deposited):
                    held, on_token = held + count, on_token - count
            elif what == "withdraw":
                out = await scene.credits.withdraw(user_id, count, key)
                assert (out == TooFew(held)) == (count > held)
                if isinstance(out, Withdrawn):
                    held, drawn = held - count, drawn + count
            else:
                account = await scene.credits.open(user_id)
                await scene.ledger.debit(Debit(account, count))
                held = held - count if count <= held else held
            assert await scene.balance(user_id) == held
        assert await scene.ledger.balance(token) == on_token
        await scene.expect_sound()


async def test_spending_by_day_stays_the_same_while_it_is_added_up(scene: Scene) -> None:
    mine = await scene.ledger.issue(credit_token(1), 50, "")
    other = await scene.ledger.issue(credit_token(2), 50, "")
    days = [(FIRST_DAY, 4), (FIRST_DAY + 2, 8)]

    async def fold(entries_max: int = 100) -> bool:
        before = UnixMs(scene.clock.now() - 1)
        return await scene.store.transact(lambda rows: rows.credits.fold_days(before, entries_max))

    async def reported(account: CreditAccount) -> list[tuple[int, int]]:
        statement = await scene.ledger.statement(account)
        return [(each.day, each.credits) for each in reversed(statement.days)]

    for _ in range(4):
        await scene.ledger.spend(mine)
    scene.clock.advance(2 * DAY_MS)
    debited = await scene.ledger.debit(Debit(mine, 10))
    assert isinstance(debited, Debited)
    await scene.ledger.give_back(debited, 2)
    await scene.ledger.debit(Debit(other, 1))
    assert await reported(mine) == days
    scene.clock.advance(1)
    assert not await fold(100)  # entries of this age may still be written
    scene.clock.advance(DAY_MS)
    while await fold(2):
        assert await reported(mine) == days
    assert await reported(mine) == days
    assert await reported(other) == [(FIRST_DAY + 2, 1)]
    await scene.ledger.spend(mine)
    assert not await fold()
    assert await reported(mine) == [*days, (FIRST_DAY + 3, 1)]


async def test_usage_by_day_key_and_endpoint_stays_the_same_while_it_is_added_up(
    scene: Scene,
) -> None:
    user_id, other = await scene.user(1), await scene.user(2)
    token = await scene.ledger.issue(credit_token(1), 100, "")
    await scene.credits.deposit(user_id, token, 80, None)
    mine, key = await scene.credits.open(user_id), await scene.key(user_id)

    async def fold(entries_max: int = 100) -> bool:
        before = UnixMs(scene.clock.now() - 1)
        return await scene.store.transact(lambda rows: rows.credits.fold_days(before, entries_max))

    async def reported(since: int = 0, limit: int = 100) -> list[tuple[int | None, ...]]:
        found = await scene.store.read(lambda rows: rows.credits.usage(user_id, since, limit))
        return [(day - FIRST_DAY, *others) for day, *others in found]

    await asyncio.gather(*(scene.ledger.spend(mine) for _ in range(4)))
    for endpoint, count in ((3, 5), (3, 6), (11, 7)):
        await scene.ledger.debit(Debit(mine, count, key, endpoint=endpoint))
    named = Debit(mine, 2, key, "an answer", 3)
    await scene.ledger.debit(named)
    await scene.ledger.debit(named)  # a repeat takes nothing
    scene.clock.advance(2 * DAY_MS)
    minute = await scene.ledger.prepay(Debit(mine, 10, key, endpoint=14))
    assert isinstance(minute, Debited)
    await scene.ledger.give_back(minute, 4)
    await scene.ledger.spend(token)  # this account belongs to no user
    today, before = (
        [(2, key, 14, 1, 6)],
        [(0, None, 0, 4, 4), (0, key, 3, 3, 13), (0, key, 11, 1, 7)],
    )
    assert await reported() == [*today, *before]
    scene.clock.advance(DAY_MS)
    while await fold(3):
        assert await reported() == [*today, *before]
    assert await reported() == [*today, *before]
    assert await reported(FIRST_DAY + 1) == today
    assert await reported(limit=2) == [*today, before[0]]
    assert await scene.store.read(lambda rows: rows.credits.usage(other, 0, 9)) == []

    def forgets(limit: int) -> Awaitable[bool]:
        return scene.store.transact(lambda rows: rows.credits.forget_usage(FIRST_DAY + 2, limit))

    assert await forgets(2)
    assert not await forgets(2)
    assert await reported() == today
    await scene.expect_sound()


async def test_a_spend_level_is_compared_once_it_is_set_or_its_account_spends(scene: Scene) -> None:
    users = [await scene.user(number) for number in (1, 2, 3)]
    token = await scene.ledger.issue(credit_token(1), 300, "")
    for each in users:
        await scene.credits.deposit(each, token, 100, None)
    accounts = [await scene.credits.open(each) for each in users]

    async def spend(number: int, count: int) -> None:
        await scene.ledger.debit(Debit(accounts[number], count))
        scene.clock.advance(1)
        before = scene.clock.now()
        await scene.store.transact(lambda rows: rows.credits.fold_days(before, 100))

    async def set_levels(level: int, *numbers: int) -> None:
        def write(rows: AccountRows) -> None:
            for number in numbers:
                rows.credits.set_spend_level(users[number], level, FIRST_DAY - 1)

        await scene.store.transact(write)

    async def compared(limit: int = 9) -> tuple[list[tuple[int, ...]], bool]:
        found, is_more = await scene.store.transact(
            lambda rows: rows.credits.take_overspent(FIRST_DAY, limit)
        )
        return [(users.index(user), day - FIRST_DAY, *rest) for user, day, *rest in found], is_more

    await spend(2, 7)
    await set_levels(5, 0, 1, 2)
    assert await compared(2) == ([], True)
    assert await compared(2) == ([(2, 0, 7, 5)], False)
    assert await compared() == ([], False)
    await spend(1, 5)
    await spend(0, 4)
    assert await compared() == ([(1, 0, 5, 5)], False)
    await set_levels(4, 0)
    assert await compared() == ([(0, 0, 4, 4)], False)
    await scene.store.transact(lambda rows: rows.credits.note_overspent(users[0], FIRST_DAY))
    await spend(0, 4)
    assert await compared() == ([], False)
    scene.clock.advance(DAY_MS)
    await spend(0, 4)
    assert await compared() == ([(0, 1, 4, 4)], False)


async def test_a_person_who_claims_an_agent_gets_its_credits_and_open_purchases(
    scene: Scene,
) -> None:
    agent, person = await scene.user(1), await scene.user(2)
    token = await scene.ledger.issue(credit_token(1), 20, "")
    await scene.credits.deposit(agent, token, 15, None)
    account = await scene.credits.open(agent)
    pending = new_payment("late", purchase=TopUp(credits=10, account=account))
    await scene.payments.begin(pending)
    await scene.credits.deposit(person, token, 5, None)

    def claimed(rows: AccountRows) -> None:
        rows.wallets.link(agent, Wallet("both"), NOW)
        rows.wallets.link(agent, Wallet("its own"), NOW)
        rows.wallets.link(person, Wallet("both"), NOW)
        rows.watchlists.insert(agent, "its own", NOW)
        hand_over(rows, agent, person, UnixMs(NOW + 1))

    await scene.store.transact(claimed)
    assert (await scene.balance(agent), await scene.balance(person)) == (0, 20)
    landed = Landed(paid=pending.payment.amount, final=True)
    await scene.payments.resolve(
        pending.payment.message_hash, landed, now=UnixMs(NOW + 2), again_ms=AGAIN_MS
    )
    assert (await scene.balance(agent), await scene.balance(person)) == (0, 30)
    linked = await scene.store.read(lambda rows: rows.wallets.of_user(person))
    assert [(each.wallet, each.linked_at) for each in linked] == [
        ("both", NOW),
        ("its own", NOW + 1),
    ]
    assert await scene.store.read(lambda rows: rows.wallets.of_user(agent)) == []
    watched = await scene.store.read(lambda rows: rows.watchlists.of_user(person))
    assert [each.name for each in watched] == ["its own"]
    await scene.expect_sound()


async def test_a_user_can_read_all_own_payments_and_no_others(scene: Scene) -> None:
    """A user's own payments are those into the account and those from linked wallets."""
    alice, bob = await scene.user(1), await scene.user(2)
    account, of_bob = await scene.credits.open(alice), await scene.credits.open(bob)
    await scene.store.transact(lambda rows: rows.wallets.link(alice, Wallet("linked"), NOW))
    into = TopUp(credits=10, account=account)
    many = Budget(in_flight_new_payer=99, in_flight_payer=99, in_flight_address=99)
    made = [
        new_payment("a", budget=many, purchase=into, payer=Wallet("any")),
        new_payment("b", budget=many, payer=Wallet("linked"), begun_at=UnixMs(NOW + 5)),
        new_payment(
            "c",
            budget=many,
            worth=24_998,
            purchase=into,
            payer=Wallet("linked"),
            begun_at=UnixMs(NOW + 5),
        ),
        new_payment("d", budget=many, payer=Wallet("a stranger"), begun_at=UnixMs(NOW + 6)),
        new_payment(
            "e", budget=many, purchase=TopUp(credits=10, account=of_bob), payer=Wallet("bob")
        ),
    ]
    for each in made:
        assert isinstance(await scene.payments.begin(each), Begun)
    for each in (made[0], made[2]):
        landed = Landed(paid=each.payment.amount, final=True)
        message_hash = each.payment.message_hash
        await scene.payments.resolve(message_hash, landed, now=NOW, again_ms=AGAIN_MS)

    async def pages(user_id: UserId, limit: int) -> list[str]:
        found: list[str] = []
        before = None
        while listed := await scene.books.of_customer(user_id, before, limit):
            found += [each.signature[-1] for each in listed]
            before = (listed[-1].begun_at, listed[-1].signature)
        return found

    async def of_wallet(user_id: UserId, wallet: Wallet) -> list[str]:
        found = await scene.books.of_wallet(user_id, wallet, None, 9)
        return [each.signature[-1] for each in found]

    async def receipts(user_id: UserId) -> list[str]:
        signatures = [each.payment.signature for each in made]
        found = [await scene.books.one_of_customer(user_id, each) for each in signatures]
        return [each.signature[-1] for each in found if each is not None]

    assert [await pages(alice, limit) for limit in (1, 2, 9)] == [["c", "b", "a"]] * 3
    assert [await pages(bob, limit) for limit in (1, 9)] == [["e"]] * 2
    assert (await receipts(alice), await receipts(bob)) == (["a", "b", "c"], ["e"])
    sums = await scene.books.sums_of_wallets(alice)
    amount = made[2].payment.amount
    assert list(sums) == [
        (Wallet("linked"), Mint("scope"), 10, 1, amount, 1, 24_998, UnixMs(NOW + 5))
    ]
    assert [each.usd for each in sums] == [Decimal("0.024998")]
    assert await of_wallet(alice, Wallet("linked")) == ["c", "b"]
    assert await of_wallet(alice, Wallet("a stranger")) == []
    assert await of_wallet(bob, Wallet("linked")) == []
    assert list(await scene.books.sums_of_wallets(bob)) == []
    await scene.store.transact(lambda rows: rows.wallets.unlink(alice, Wallet("linked")))
    assert (await pages(alice, 9), await receipts(alice)) == (["c", "a"], ["a", "c"])


async def test_an_agent_without_a_credit_account_can_be_handed_over(scene: Scene) -> None:
    agent, person = await scene.user(1), await scene.user(2)
    await scene.store.transact(lambda rows: hand_over(rows, agent, person, NOW))
    assert await scene.store.read(lambda rows: rows.credits.find(person)) is None


async def test_no_bearer_string_finds_the_credit_account_of_a_user(scene: Scene) -> None:
    user_id = await scene.user(1)
    account = await scene.credits.open(user_id)
    assert await scene.credits.open(user_id) == account
    for bearer in ("", str(user_id), "account of user", f"user:{user_id}"):
        assert await scene.ledger.find(bearer) is None


@pytest.mark.parametrize("table", ["key_month", "credit_move"])
async def test_books_that_do_not_agree_are_reported(scene: Scene, table: str) -> None:
    user_id = await scene.user(1)
    token = await scene.ledger.issue(credit_token(1), 20, "")
    await scene.credits.deposit(user_id, token, 5, None)
    await scene.expect_sound()
    database = vars(scene.books)["_db"]
    if table == "key_month":
        key = CredentialHash(bytes(32))
        database.execute(
            'INSERT INTO api_key ("user", key_hash, hint, name, scopes, created_at)'
            " VALUES (?, ?, '', '', '[]', 0)",
            (user_id, key),
        )
        database.execute("INSERT INTO key_month SELECT id, 24300, 1 FROM api_key")
    else:
        database.execute(
            'INSERT INTO credit_move ("user", kind, off_entry, onto_entry)'
            " SELECT ?, 'deposit', max(id), min(id) FROM credit_entry",
            (user_id,),
        )
    assert len(await violations_of(scene.books)) == 1


async def test_an_account_is_not_deleted_while_its_payment_is_under_way(scene: Scene) -> None:
    user_id, other = await scene.user(1), await scene.user(2)
    account = await scene.credits.open(user_id)
    pending = new_payment("late", purchase=TopUp(credits=10, account=account))
    await scene.payments.begin(pending)

    def remove(who: UserId) -> Callable[[AccountRows], None]:
        return lambda rows: remove_user(rows, who, COMMAND_LINE, UnixMs(NOW + 1))

    with pytest.raises(NotPossible, match="1 has a payment in progress"):
        await scene.store.transact(remove(user_id))
    await scene.store.transact(remove(other))
    landed = Landed(paid=pending.payment.amount, final=True)
    await scene.payments.resolve(
        pending.payment.message_hash, landed, now=UnixMs(NOW + 2), again_ms=AGAIN_MS
    )
    await scene.store.transact(remove(user_id))
    await scene.expect_sound()


async def test_a_purchase_for_a_deleted_account_belongs_to_its_payer(scene: Scene) -> None:
    """A lost payment is stored again after the deletion, and its payer can claim its credits.

    Credits from before the deletion cannot be claimed.
    """
    user_id = await scene.user(1)
    account = await scene.credits.open(user_id)
    kept = new_payment("before", purchase=TopUp(credits=5, account=account))
    await scene.payments.begin(kept)
    landed = Landed(paid=kept.payment.amount, final=True)
    await scene.payments.resolve(
        kept.payment.message_hash, landed, now=UnixMs(NOW + 1), again_ms=AGAIN_MS
    )
    await scene.store.transact(
        lambda rows: remove_user(rows, user_id, COMMAND_LINE, UnixMs(NOW + 2))
    )
    late = new_payment("late", purchase=TopUp(credits=10, account=account))
    late = replace(late, payment=replace(late.payment, payer=Wallet("another payer")))
    assert isinstance(await scene.payments.begin(late), Removed)
    await scene.payments.adopt(late.payment, landed, by=COMMAND_LINE, now=UnixMs(NOW + 3))

    async def claim(payment: Payment, number: int) -> int | RotationDenied:
        token = credit_token(number)
        digest = hash_credential(token, pepper=PEPPER)
        later = UnixMs(NOW + 2 * DAY_MS)
        return await scene.payments.claim(payment.signature, digest, hint(token), now=later)

    assert await claim(kept.payment, 5) is RotationDenied.EMPTY
    assert await claim(late.payment, 6) == 10
    found = await scene.ledger.find(credit_token(6))
    assert found is not None
    assert await scene.ledger.balance(found) == 10
    await scene.expect_sound()
