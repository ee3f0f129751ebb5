"""Adds past events to a service, so that each page has data to show."""

from collections.abc import Iterator
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factors import code_at, step_of
from mintscope.accounts.keys.scope import READ_SCOPES, Scope
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.session import Browser, Session
from mintscope.accounts.signups.application import SignupId
from mintscope.alerts.alert import Alert, AlertRule, TelegramChat
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import BackfillState, Cost
from mintscope.kit.audit import COMMAND_LINE, HourSeries, KeyId, hour_of, requests_of
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.market.coverage import SlotCoverage, Tally
from mintscope.solana.blocks import USDC, WSOL
from mintscope.watchlists.rows import WatchDenied
from support.scenes.payments.paid_rows import PaidRow, insert
from support.scenes.service import credit_token
from support.scenes.stores import market_in
from support.scenes.traded import new_slot
from support.scenes.website import HERE, PASSWORD, Website

PERSON: Final = EmailAddress("ann.the.trader@every.example")
MOVER: Final = EmailAddress("mover@every.example")
MOVED: Final = EmailAddress("moved@every.example")
ANOTHER: Final = EmailAddress("ann@another.example")
PROTECTED: Final = EmailAddress("protected@every.example")
NEWCOMER: Final = EmailAddress("new@every.example")
AGENT: Final = EmailAddress("agent-smith@every.example")
LONG_ADDRESS: Final = f"a-provider-with-{'long-' * 8}name@a-subdomain.{'of-' * 10}a-domain.example"
NO_ANSWER: Final = "Waits for the node: getTransaction: it did not answer within 20 s"
SOME_PROGRAM: Final = "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj"
NETWORKS: Final = "192.0.2.0/24 198.51.100.7/32 2001:db8:7::/48"
UNBROKEN_NAME: Final = "the-longest-name-a-key-may-have-with-no-place-to-break-the-line"
PHONE: Final = Browser("2001:db8::7", "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0) Safari/605.1")
SCRIPT: Final = "<script>document.title='run'</script>"
WRITES: Final = frozenset({Scope.TRADE_READ, Scope.TRADE_WRITE, Scope.SIGNALS_READ})

ALERT: Final = AlertRule(
    name="Hot",
    mint=Mint(WSOL),
    field=Field("indicators.h1.rsi"),
    kind=SignalKind.ABOVE,
    level=70.0,
    webhook_url="https://hooks.every.example/mintscope",
)


async def scene_at(site: Website) -> dict[str, object]:
    """Add data for all pages; return values for the variables in their paths, by name."""
    await site.make_administrator()
    applications = await _applications(site)
    await _hours(site)
    keys = await _person(site) | await _changes(site) | await _protected(site)
    await site.accounts.people.sign_up(NEWCOMER, PASSWORD, HERE)
    await site.accounts.people.request_reset(PERSON, HERE)
    users = await site.accounts.review.users(limit=50)
    assert site.accounts.mailbox is not None
    emails = await site.accounts.mailbox.recent(limit=1)
    return {
        **applications,
        **keys,
        "reset": await site.link(PERSON),
        "user": users[-1].user_id,
        "email_id": emails[0].email_id,
    }


async def _applications(site: Website) -> dict[str, object]:
    review = site.accounts.review
    made: dict[str, SignupId] = {}
    for name, email, motivation in (
        ("issued", PERSON, "To trade by myself."),
        ("rejected", "spam@every.example", "Buy now."),
        ("waiting", "first@every.example", f"I trade at night.\n\n    Indented.\n{SCRIPT}"),
        ("second", LONG_ADDRESS, "We publish signals. " * 40),
        ("third", "third@every.example", "x" * 300),
        ("agent", AGENT, "An agent of its own."),
        ("unconfirmed", "unread@every.example", "The e-mail is not read yet."),
    ):
        made[name], secret = await site.apply_for_key(email, motivation)
        confirm = await site.link(email)
        if name != "unconfirmed":
            assert await site.accounts.signup.confirm_by_link(confirm.rpartition("/")[2])
        if name in {"issued", "agent"}:
            scopes = frozenset({Scope.TRADE_WRITE})
            await review.approve(made[name], scopes=scopes, note="Known.", actor=COMMAND_LINE)
            await site.exchange(email, secret)
        site.clock.advance(5 * HOUR_MS)
    await review.reject(made["rejected"], note="Spam.\nAgain.", actor=COMMAND_LINE)
    await review.record("followed token", f"mint:{'z' * 44}", actor=COMMAND_LINE)
    return {**made, "confirm": confirm}


async def _person(site: Website) -> dict[str, object]:
    """Add a person with a verified address, two sessions, and an API key of every kind."""
    people, keys = site.accounts.people, site.accounts.keys
    await people.sign_up(PERSON, PASSWORD, PHONE)
    session = await _session(site)
    await people.request_verification(session)
    assert await people.verify(session, (await site.link(PERSON)).rpartition("/")[2])

    async def make(name: str, scopes: frozenset[Scope], days: int | None) -> KeyId:
        lifetime_ms = None if days is None else days * DAY_MS
        issued = await keys.create(
            session,
            name=name,
            scopes=scopes,
            lifetime_ms=lifetime_ms,
            networks=NETWORKS if days == 30 else "",
        )
        if days == 30:
            await keys.find(issued.api_key, "192.0.2.14")
            site.clock.advance(HOUR_MS)
            await keys.find(issued.api_key, "2001:db8:7:8::/64")
        return issued.line.key_id

    made = {
        "used": await make("Trading bot in Frankfurt", WRITES, 30),
        "long": await make(UNBROKEN_NAME, READ_SCOPES, 90),
        "soon": await make("Notebook", frozenset(Scope), 5),
        "ended": await make("Laptop that was stolen", frozenset(), None),
        "old": await make("Signals", WRITES, 365),
    }
    lists = site.accounts.watchlists
    watched = await lists.make(session.user.user_id, "Stables")
    await lists.make(session.user.user_id, UNBROKEN_NAME)
    assert not isinstance(watched, WatchDenied)
    for mint in (WSOL, USDC):
        await lists.add(session.user.user_id, watched.line.watchlist_id, Mint(mint))
    alert = await site.accounts.signals.make(session.user.user_id, ALERT)
    assert isinstance(alert, Alert)
    paid = PaidRow(
        number=1,
        begun_at=site.clock.now() - HOUR_MS,
        account=await site.accounts.credits.open(session.user.user_id),
    )
    insert(site.folder, paid, PaidRow(number=2, begun_at=paid.begun_at, amount=2_500))
    granted = await site.ledger.issue(credit_token(7), 3, "")
    await site.accounts.credits.deposit(session.user.user_id, granted, None, None)
    await site.accounts.signals.test(session.user.user_id, alert.signal_id)
    chat = TelegramChat(
        user_id=session.user.user_id, chat_id=7, name=f"@ann{SCRIPT}", linked_at=site.clock.now()
    )
    await people.store.transact(lambda rows: rows.chats.link(chat))
    await keys.flush()
    await keys.revoke(session, made["ended"])
    await keys.rotate(session, made["old"], overlap_ms=DAY_MS)
    return {
        **made,
        "watchlist": watched.line.watchlist_id,
        "alert": alert.signal_id,
        "signature": paid.signature,
    }


async def _changes(site: Website) -> dict[str, object]:
    """Change one person's e-mail address, and request a change for a second person."""
    people, addresses = site.accounts.people, site.accounts.addresses
    mover = await people.session(await people.sign_up(MOVER, PASSWORD, HERE))
    assert mover is not None
    await people.request_verification(mover)
    assert await people.verify(mover, _last(await site.link(MOVER)))
    assert await addresses.request(mover, MOVED)
    assert await addresses.confirm(mover, _last(await site.link(MOVED)))
    assert await addresses.request(await _session(site), ANOTHER)
    return {"undo": await site.link(MOVER), "change": await site.link(ANOTHER)}


async def _hours(site: Website) -> None:
    """Add request counts and coverage of a week, more by day than at night, and backfills."""
    now = hour_of(site.clock.now())

    def write(rows: AccountRows) -> None:
        for back in range(160):
            busy = 40 + 35 * ((now - back) % 24 in range(8, 20)) + (back * 7) % 13
            rows.hours.add(
                now - back,
                {
                    requests_of(200): 60 * busy,
                    requests_of(402): busy // 3,
                    requests_of(404): busy % 5,
                    requests_of(429): busy % 3,
                    requests_of(503): int(back in {31, 32, 90}),
                    HourSeries.CREDITS_SOLD: 10 * (busy // 7),
                    HourSeries.FUND: 10**8 + 300_000 * back,
                    HourSeries.PAID: busy // 7,
                    HourSeries.CREDITS_USED: 50 * busy,
                    HourSeries.LAG_MS: 400 + 11 * busy,
                },
            )

    await site.accounts.review.store.transact(write)
    async with market_in(site.folder) as market:
        await market.store.write(list(_covered(now)))
        if site.market is None:
            await market.store.write([new_slot(now, now * 3_600)])
        await _backfills(market, site.clock.now())
        for mint in (WSOL, USDC, SOME_PROGRAM) if site.market is None else ():
            await market.tracking.add(Mint(mint))


async def _backfills(market: Market, now: UnixMs) -> None:
    """Request backfills of tokens, one in each state."""
    cost = Cost(12_340, 12_400, 1_240.0)
    for place, state in enumerate(BackfillState):
        since = UnixS(now // 1_000 - 10 * 86_400)
        mint = Mint(f"{SOME_PROGRAM[:-1]}{place + 1}")
        assert await market.backfill_jobs.ask(mint, since, UnixMs(now - HOUR_MS))
        ask_id = (await market.backfill_jobs.newest(1))[0].ask_id
        if state is BackfillState.ASKED:
            continue
        await market.backfill_jobs.estimated(ask_id, since, cost)
        if state is not BackfillState.ESTIMATED:
            await market.backfill_jobs.confirm(ask_id)
        if state in {BackfillState.READING, BackfillState.CANCELLING}:
            await market.backfill_jobs.began(ask_id, since)
            await market.backfill_jobs.progress(ask_id, 9_000, 4_100, NO_ANSWER)
        if state is BackfillState.CANCELLING:
            await market.backfill_jobs.cancel(ask_id, now)
        if state in {BackfillState.DONE, BackfillState.FAILED, BackfillState.CANCELLED}:
            words = f"no pool of {mint} was found" if state is BackfillState.FAILED else ""
            await market.backfill_jobs.end(ask_id, state, words, now)


def _covered(now: int) -> Iterator[SlotCoverage]:
    """Yield the coverage of a week, for more programs than the page plots."""
    for back in range(159, -1, -3):
        calls = {
            (program, "unknown_instruction"): (back * 5 + place) % 11 * (12 - place)
            for place, program in enumerate(("pump_amm", "meteora_dlmm", SOME_PROGRAM, *"abcdefgh"))
        }
        calls |= {("pump_amm", "read"): 9_000 + back, (SOME_PROGRAM, "unlisted"): 40 + back}
        yield SlotCoverage(
            slot=Slot(now - back),
            parent_slot=Slot(now - back - 1),
            time=UnixS((now - back) * 3_600),
            calls={key: Tally(each, each, 83_000_000 * each) for key, each in calls.items()},
            missed={},
        )


async def _protected(site: Website) -> dict[str, object]:
    """Add a person with an authenticator app; return a recovery code as `code`."""
    people, factors = site.accounts.people, site.accounts.factors
    session = await people.session(await people.sign_up(PROTECTED, PASSWORD, HERE))
    assert session is not None
    await factors.begin_app(session)
    secret = await factors.app_secret(session)
    assert secret is not None
    step = step_of(site.clock.now())
    codes = await factors.confirm_app(session, code_at(secret, step))
    return {"code": codes[0]}


def _last(path: str) -> str:
    return path.rpartition("/")[2]


async def _session(site: Website) -> Session:
    cookie = await site.accounts.people.sign_in(PERSON, PASSWORD, HERE)
    session = await site.accounts.people.session(cookie)
    assert session is not None
    return session
