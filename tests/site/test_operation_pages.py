"""Pages on which administrators operate the service: numbers, tokens, sales, the audit log."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.app.running.operating import HourWriter
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.audit import COMMAND_LINE, HourSeries, Series, hour_of, requests_of
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import CREDITS_SOLD, REQUESTS
from mintscope.kit.primitives import Slot, UnixS
from mintscope.kit.time import HOUR_MS
from mintscope.market.coverage import SlotCoverage, Tally
from mintscope.payments.audit import violation_of
from mintscope.site.token import listing
from mintscope.solana.blocks import WSOL
from support.scenes.engine import rows_of
from support.scenes.people.web_person import ALICE, ORIGIN, Person, where, words
from support.scenes.stores import market_in
from support.scenes.token_market import BONE, YOUNG
from support.scenes.traded import new_slot
from support.scenes.website import ADMINISTRATOR, Website, website

T = TypeVar("T")

BLOOM = "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1"  # a bot that trades for its users
BONK = "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263"
TOKENS, SALES, AUDIT = "/admin/tokens", "/admin/sales", "/admin/audit"


async def test_a_token_is_added_searched_and_removed(administrator: Person) -> None:
    assert "expected" in words(await administrator.send(TOKENS, {"mint": "none"})).lower()
    assert where(await administrator.send(TOKENS, {"mint": BONK})).startswith(TOKENS)
    await administrator.send(TOKENS, {"mint": BONK})
    assert f"{BONK} Operator" in words(await administrator.open(TOKENS))
    assert BONK in words(await administrator.open(f"{TOKENS}?text=DezXA"))
    assert BONK not in words(await administrator.open(f"{TOKENS}?text=xxx"))
    removal = f"{TOKENS}/{BONK}/remove"
    assert BONK in words(await administrator.open(removal))
    await administrator.send(removal)
    assert BONK not in words(await administrator.open(TOKENS))
    assert (await administrator.open(removal)).status_code == 404
    assert (await administrator.open(f"{TOKENS}/x/remove")).status_code == 404
    log = words(await administrator.open(AUDIT))
    assert log.count("followed token") == log.count("dropped token") == 1
    assert f"{ADMINISTRATOR} user:1" in log


async def test_sol_cannot_be_dropped(administrator: Person) -> None:
    removal = f"{TOKENS}/{WSOL}/remove"
    await administrator.send(TOKENS, {"mint": BONK})
    await administrator.send(TOKENS, {"mint": WSOL})
    refused = [await administrator.open(removal), await administrator.send(removal)]
    tokens = await administrator.open(TOKENS)

    for page in refused:
        assert page.status_code == 422
        assert "SOL is always tracked: every price depends on it." in words(page)
    assert f"{WSOL} Operator" in words(tokens)
    assert f"{TOKENS}/{BONK}/remove" in tokens.text
    assert removal not in tokens.text
    assert "dropped token" not in words(await administrator.open(AUDIT))


async def test_tokens_are_listed_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(
        listing, "sparkline"
    )  # so that drawing a sparkline, which the page does not show, fails
    async with website(tmp_path, origin=ORIGIN, has_token_market=True) as site:
        await site.make_administrator()
        async with Person(site) as person:
            await person.sign_in(ADMINISTRATOR)
            shown = words(await person.open(TOKENS))
    assert f"BONE Bone Token {BONE}" in shown
    assert f"YNG {YOUNG}" in shown


async def test_sales_are_paused_and_resumed(site: Website, administrator: Person) -> None:
    assert site.accounts.operations is not None
    books = site.accounts.operations.sales
    assert books is not None
    assert "Sales Open" in words(await administrator.open(SALES))
    for wrong in ("", "x" * 201):
        assert (await administrator.send(f"{SALES}/pause", {"why": wrong})).status_code == 422
    await administrator.send(f"{SALES}/pause", {"why": "The treasury moves."})
    assert await books.why_stopped() == "paused by an administrator: The treasury moves."
    assert violation_of(await books.why_stopped()) is None  # a pause is no violation
    assert violation_of("I2: a balance (7)") == "I2: a balance (7)"
    assert "Stopped" in words(await administrator.open("/admin/overview"))
    await administrator.send(f"{SALES}/resume")
    assert await books.why_stopped() is None
    log = words(await administrator.open(f"{AUDIT}?action=paused"))
    assert "The treasury moves." in log
    assert "resumed sales" not in log


async def test_nothing_is_changed_if_the_audit_log_cannot_be_written(
    site: Website, administrator: Person
) -> None:
    await administrator.send(TOKENS, {"mint": BONK})
    path = site.folder / MONEY_FILE
    full = "BEFORE INSERT ON account_event BEGIN SELECT raise(FAIL, 'full'); END"
    rows_of(path, f"CREATE TRIGGER full {full}")
    actions: dict[str, dict[str, str]] = {
        f"{TOKENS}/{BONK}/remove": {},
        TOKENS: {"mint": BLOOM},
        f"{SALES}/pause": {"why": "The treasury moves."},
    }
    failed = [
        (await administrator.send(action, form)).status_code for action, form in actions.items()
    ]
    text = words(await administrator.open(TOKENS))
    sales = words(await administrator.open(SALES))
    rows_of(path, "DROP TRIGGER full")
    await administrator.send(f"{SALES}/pause", actions[f"{SALES}/pause"])
    rows_of(path, f"CREATE TRIGGER full {full}")
    resumed = await administrator.send(f"{SALES}/resume")
    still = words(await administrator.open(SALES))
    rows_of(path, "DROP TRIGGER full")

    assert failed == [503, 503, 503]
    assert f"{BONK} Operator" in text
    assert f"{BLOOM} Operator" not in text
    assert "Sales Open" in sales
    assert resumed.status_code == 503
    assert "Sales Open" not in still


async def test_the_overview_adds_up_the_numbers_of_every_process(
    site: Website, administrator: Person
) -> None:
    hour = hour_of(site.clock.now())
    store = site.accounts.review.store
    for _ in range(2):
        await store.transact(
            lambda rows: rows.hours.add(hour, {requests_of(200): 1500, requests_of(402): 4})
        )
    await store.transact(lambda rows: rows.hours.add(hour, {HourSeries.PAID: 2}))
    other: dict[Series, int] = {
        HourSeries.LAG_MS: 2_400,
        HourSeries.FUND: 1_250_000_000,
        HourSeries.CREDITS_SOLD: 30,
    }
    await store.transact(lambda rows: rows.hours.add(hour - 1, other))
    text = words(await administrator.open("/admin/overview"))
    assert "200 OK 3,000" in text
    assert "402 Payment Required 8" in text
    assert "8 responses required a payment, 2 payments settled (25.0 %)" in text
    assert "Credits sold 30" in text
    assert "Fee payer 1.2500 SOL" in text
    assert "peak 3,000 an hour" in text
    assert "Age of the newest block 2.4 s" in text
    assert "Every call of the last seven days was read." in text


async def test_unread_calls_are_shown_by_program_and_day_over_a_week(
    site: Website, administrator: Person
) -> None:
    hour = hour_of(site.clock.now())
    seen = [covered(hour - 167, {("p0", "no_movement"): 5}), covered(hour - 24, {("p0", "x"): 7})]
    seen.append(covered(hour, {(f"p{each}", "no_movement"): 100 - each for each in range(11)}))
    async with market_in(site.folder) as market:
        await market.store.write(seen)
        await market.store.write([new_slot(hour, hour * 3_600)])
    page = await administrator.open("/admin/overview")
    text = words(page)
    assert "p0 112" in text
    assert "p0 100 7 0 0 0 0 5 112" in text
    assert "p7 93 0 0 0 0 0 0 93" in text
    assert "all others 273" in text
    assert "p8" not in text
    assert "p0, by hour over seven days: 112 in all, 100 in an hour at most" in page.text


async def test_coverage_and_unlisted_programs_are_shown_by_day(
    site: Website, administrator: Person
) -> None:
    hour = hour_of(site.clock.now())
    seen = [
        covered(hour - 30, {(BLOOM, "unlisted"): 3}, volume=5_000_000),
        covered(hour, {("a", "read"): 96, (BLOOM, "unlisted"): 2, ("a", "x"): 2}, volume=1_000_000),
    ]
    async with market_in(site.folder) as market:
        await market.store.write(seen)
        await market.store.write([new_slot(hour, hour * 3_600)])
    text = words(await administrator.open("/admin/overview"))
    assert "98 % of the volume and 98 % of the calls that exchanged tokens since" in text
    assert "(7 days: 98.26 % of the volume)" in text
    assert f"Bloom ({BLOOM}) $2 2 $15 3 0 0 0 0 0 $17 5" in text


def covered(hour: int, calls: Mapping[tuple[str, str], int], volume: int = 0) -> SlotCoverage:
    """Return the coverage of a block in hour *hour*.

    calls    the number of calls by program and outcome, each of *volume* micro-USD
    """
    return SlotCoverage(
        slot=Slot(hour), parent_slot=Slot(hour - 1), time=UnixS(hour * 3_600),
        calls={key: Tally(count, count, count * volume) for key, count in calls.items()}, missed={},
    )  # fmt: skip


async def test_the_counts_of_a_process_are_written_once(site: Website) -> None:
    store, hour = site.accounts.review.store, hour_of(site.clock.now())
    assert site.accounts.operations is not None
    assert site.accounts.operations.sales is not None
    writer = HourWriter(store, site.clock, lambda: 70, site.accounts.operations.sales.fund)
    CREDITS_SOLD.inc(5)
    REQUESTS.count("/", 418, 0.1)
    await writer.round()
    first = await store.read(lambda rows: rows.hours.since(hour))
    await writer.round()
    assert await store.read(lambda rows: rows.hours.since(hour)) == first
    assert first[HourSeries.LAG_MS] == {hour: 70}
    assert first[HourSeries.CREDITS_SOLD][hour] >= 5
    assert first[requests_of(418)][hour] >= 1
    site.clock.advance(32 * 24 * HOUR_MS)  # hours are kept for 31 days
    await writer.round()
    assert list((await store.read(lambda rows: rows.hours.since(0)))[HourSeries.LAG_MS]) == [
        hour_of(site.clock.now())
    ]


@dataclass
class Unanswering(AccountStore):
    """A store whose answers are lost; its changes are stored unless *is_away* is true."""

    store: AccountStore
    is_away: bool

    @override
    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        if not self.is_away:
            await self.store.transact(work)
        raise ServiceUnavailable("no answer")

    @override
    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.claim(work)

    @override
    async def read(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.read(work)


@pytest.mark.parametrize("is_away", [False, True])
async def test_hourly_counts_are_not_added_twice_after_a_commit_in_doubt(
    site: Website, *, is_away: bool
) -> None:
    store = site.accounts.review.store
    hour = hour_of(site.clock.now())
    writer = HourWriter(Unanswering(store, is_away), site.clock, lambda: None, None)
    REQUESTS.count("/", 418, 0.1)
    await writer.round()
    arrived = await store.read(lambda rows: rows.hours.since(hour))
    writer.store = store
    await writer.round()
    written = await store.read(lambda rows: rows.hours.since(hour))
    assert arrived == ({} if is_away else written)
    assert written[requests_of(418)][hour] == REQUESTS.by_status()[418]


async def test_the_audit_log_names_people_and_is_filtered(
    site: Website, administrator: Person
) -> None:
    async with Person(site, address="198.51.100.9") as alice:
        await alice.sign_up()
    signup_id = await site.apply("agent@example.org")
    await site.accounts.review.reject(signup_id, note="", actor=COMMAND_LINE)
    everything = words(await administrator.open(AUDIT))
    assert f"{ALICE} user:2" in everything
    assert f"agent@example.org application:{signup_id}" in everything
    of_alice = words(await administrator.open(f"{AUDIT}?who={ALICE.upper()}"))
    assert "signed up" in of_alice
    assert "rejected" not in of_alice
    of_command = words(await administrator.open(f"{AUDIT}?who=command%20line&action=REJ"))
    assert "rejected" in of_command
    assert "made administrator" not in of_command
    assert "No row matches." in words(await administrator.open(f"{AUDIT}?who=no-one@example.org"))


async def test_applications_are_searched(site: Website, administrator: Person) -> None:
    await site.apply("one@example.org", "I follow 100% of all_tokens.")
    await site.apply("two@example.org", "Something else.")
    for text, found in {
        "ONE@": {"one"}, "100%25": {"one"}, "l_t": {"one"}, "0_0": set(), "e": {"one", "two"},
        "@AGENT": {"one", "two"}, "nothing": set(),
    }.items():  # fmt: skip
        page = words(await administrator.open(f"/admin?state=all&text={text}"))
        assert {name for name in ("one", "two") if f"{name}@example.org" in page} == found, text
    waiting = words(await administrator.open("/admin?state=awaiting_confirmation&text=else"))
    assert "two@example.org" in waiting
    assert "one@example.org" not in waiting


async def test_a_reason_reaches_the_applicant_and_a_note_does_not(
    site: Website, administrator: Person
) -> None:
    signup_id = await site.apply("agent@example.org")
    await site.accounts.signup.confirm_by_link(
        (await site.link("agent@example.org")).rpartition("/")[2]
    )
    reported = "Please say {what} you trade."
    note = "Looks like spam."
    await administrator.send(
        f"/admin/applications/{signup_id}",
        {"decision": "reject", "reject-note": note, "told": reported},
    )
    email = await site.email("agent@example.org")
    assert reported in email
    assert note not in email
    shown = words(await administrator.open(f"/admin/applications/{signup_id}"))
    assert f"by {ADMINISTRATOR}" in shown
    assert note in shown


async def test_a_decision_is_undone_on_the_page_after_it(
    site: Website, administrator: Person
) -> None:
    signup_id = await site.apply("agent@example.org")
    link = await site.link("agent@example.org")
    await site.accounts.signup.confirm_by_link(link.rpartition("/")[2])
    one = f"/admin/applications/{signup_id}"
    decided = await administrator.send(
        one, {"decision": "reject", "reject-note": "Spam.", "told": "Say more."}
    )
    queue = await administrator.open(where(decided))
    shown = words(await administrator.open(one))
    assert "rejected by root" in shown.replace(ADMINISTRATOR, "root")
    assert "message to the applicant Say more." in shown
    found = re.search(r'name="decided_at" value="(\d+)"', queue.text)
    assert found
    await administrator.send(f"{one}/undo", {"decided_at": found[1]})
    again = await administrator.send(f"{one}/undo", {"decided_at": found[1]})
    page = words(await administrator.open(one))
    email = await site.email("agent@example.org")

    assert again.status_code == 409
    assert "until another decision is made" in words(again)
    assert "Waiting for approval" in page
    assert "reopened" in page
    assert "is being reviewed again" in email
    assert 'name="decided_at"' not in (await administrator.open(where(decided))).text
