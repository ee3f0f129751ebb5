"""Payments on pages: lists and receipts for customers, and all payments for administrators."""

import csv
import re
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
from solders.keypair import Keypair

from mintscope.accounts.rows import AccountRows
from mintscope.alerts.alert import AlertRule
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.credits.ledger import NUMBERS, Debit, DebitLedger
from mintscope.kit.primitives import Mint, UnixMs, Wallet
from mintscope.kit.time import iso_time
from mintscope.payments.payment import Assets, Coin, price_usd
from mintscope.site.render import Operator
from mintscope.solana.blocks import USDC, WSOL
from support.scenes.payments.paid_rows import PaidRow, insert
from support.scenes.people.web_person import ALICE, MALLORY, ORIGIN, Person, words
from support.scenes.service import credit_token
from support.scenes.website import ADMINISTRATOR, Website, website

DAY_MS = 86_400_000
OPERATOR = Operator(
    name="Trader Tools Ltd",
    contact="mailto:help@example.org",
    terms="https://example.org/terms",
    privacy="https://example.org/privacy",
    refunds="Within 14 days, to the wallet that paid.",
)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Website]:
    async with website(tmp_path, origin=ORIGIN, operator=OPERATOR) as site:
        yield site


async def paid(site: Website, email: str = ALICE) -> tuple[PaidRow, PaidRow]:
    """Store a settled and a failed purchase, and a payment for an answer; return the purchases."""
    users = await site.accounts.review.users(limit=50)
    user = next(each for each in users if each.email == email)
    account = await site.accounts.credits.open(user.user_id)
    at = site.clock.now()
    bought = PaidRow(number=1, begun_at=at - DAY_MS, account=account, worth=24_998)
    failed = PaidRow(
        number=2,
        begun_at=site.clock.now() - 2 * DAY_MS,
        account=account,
        state="failed",
        reason="transaction_failed",
    )
    answer = PaidRow(number=3, begun_at=site.clock.now() - DAY_MS, amount=2_500)
    insert(site.folder, bought, failed, answer)
    return bought, failed


async def test_a_customer_sees_each_purchase_and_its_receipt(site: Website, alice: Person) -> None:
    bought, failed = await paid(site)
    listed = words(await alice.open("/credits/payments"))
    receipt = await alice.open(f"/credits/payments/{bought.signature}")
    table = [*csv.reader(StringIO((await alice.open("/credits/payments.csv")).text))]

    assert listed.count("Receipt") == 2 + 1  # with the head of the column
    assert "10 credits 0.025 USDC $0.024998" in listed
    assert "Failed transaction failed" in listed
    for part in ("0.025 USDC", bought.wallet, bought.signature, "Paid, final on chain", ALICE):
        assert part in words(receipt)
    assert "Trader Tools Ltd, help@example.org" in words(receipt)
    assert f"https://solscan.io/tx/{bought.signature}" in receipt.text
    assert table[0][:6] == ["at", "bought", "credits", "amount", "asset", "usd"]
    assert [(*row[2:6], row[8], row[10]) for row in table[1:]] == [
        ("10", "0.025", "USDC", "0.024998", "issued", "worth when paid"),
        ("10", "0.025", "USDC", "0.025", "failed", "list price"),
    ]
    assert "USD at the time $0.024998 Wallet" in words(receipt)
    unknown = words(await alice.open(f"/credits/payments/{failed.signature}"))
    assert "USD at the time $0.025 list price; the market value is not known" in unknown
    assert failed.signature in table[2]


async def test_each_of_many_payments_is_in_the_list_and_has_a_receipt(
    site: Website, alice: Person
) -> None:
    """There are more than two pages of payments, and several began in the same millisecond."""
    first, _ = await paid(site)
    rows = [
        PaidRow(
            number=number, begun_at=site.clock.now() - number // 3 * 1_000, account=first.account
        )
        for number in range(4, 210)
    ]
    insert(site.folder, *rows)
    path: str | None = "/credits/payments"
    listed: list[str] = []
    lengths: list[int] = []
    while path is not None:
        page = await alice.open(path)
        found = re.findall('href="/credits/payments/([^"]*)"', page.text)
        lengths.append(len(found))
        listed += found
        older = re.search('href="([^"]*)">Older', page.text)
        path = None if older is None else older[1]
    table = [*csv.reader(StringIO((await alice.open("/credits/payments.csv")).text))]
    rest = (await alice.open(f"/credits/payments.csv?before={older_place(rows[-3])}")).text

    expected = sorted(rows, key=lambda each: (each.begun_at, each.signature), reverse=True)
    assert listed[: len(rows)] == [each.signature for each in expected]
    assert lengths == [100, 100, len(rows) + 2 - 200]
    assert [row[7] for row in table[1:]] == listed
    assert rest.count("\n") == 1 + len(listed) - 1 - listed.index(rows[-3].signature)
    last = await alice.open(f"/credits/payments/{expected[-1].signature}")
    assert expected[-1].wallet in words(last)
    for wrong in ("nonsense", "1" * 90, first.signature[:-1], "\N{BULLET}"):
        assert (await alice.open(f"/credits/payments/{wrong}")).status_code == 404
    for wrong in ("x", f"1.{'1' * 90}", f"-1.{first.signature}"):
        page = await alice.open(f"/credits/payments?before={wrong}")
        assert re.findall('href="/credits/payments/([^"]*)"', page.text) == listed[:100]


def older_place(row: PaidRow) -> str:
    return f"{row.begun_at}.{row.signature}"


async def test_a_customer_sees_the_usage_of_each_endpoint_by_each_key(
    site: Website, alice: Person
) -> None:
    ledger = site.ledger
    review = site.accounts.review
    assert isinstance(ledger, DebitLedger)
    user = next(each for each in await review.users(limit=9) if each.email == ALICE)
    session = await site.accounts.people.session(alice.cookie or "")
    assert session is not None
    bot = await site.accounts.keys.create(
        session, name="=Bot <1>", scopes=frozenset(), lifetime_ms=None
    )
    given = await ledger.issue(credit_token(1), 100, "")
    await site.accounts.credits.deposit(user.user_id, given, None, None)
    account = await site.accounts.credits.open(user.user_id)
    key = bot.line.key_id
    candles = NUMBERS["GET /v1/token/{tokenAddress}/candles"]
    for days, count in ((0, 5), (10, 7), (0, 8)):
        site.clock.advance(days * DAY_MS)
        await ledger.debit(Debit(account, count, key, endpoint=candles))
    await ledger.spend(account)
    today, first = (iso_time(UnixMs(site.clock.now() - days * DAY_MS))[:10] for days in (0, 10))
    async with Person(site) as again:
        await again.sign_in(ALICE)
        month = words(await again.open("/credits/usage"))
        week = words(await again.open("/credits/usage?days=7"))
        table = (await again.open("/credits/usage.csv")).text
    await site.make_administrator()
    async with Person(site, address="198.51.100.8") as admin:
        await admin.sign_in(ADMINISTRATOR)
        customer = words(await admin.open(f"/admin/users/{user.user_id}"))

    assert "21 credits for 4 requests since" in month
    used = "=Bot <1> GET /v1/token/{tokenAddress}/candles"
    assert f"{used} 3 20 None Token pages: views and tests 1 1" in month
    assert "16 credits for 3 requests since" in week
    assert f"{used} 3 20" in customer
    assert table.splitlines() == [
        "day,key,key_id,endpoint,requests,credits",
        f"{today},,,Token pages: views and tests,1,1",
        f"{today},'=Bot <1>,{key},GET /v1/token/{{tokenAddress}}/candles,2,15",
        f"{first},'=Bot <1>,{key},GET /v1/token/{{tokenAddress}}/candles,1,5",
    ]


async def test_one_credit_of_one_request_is_in_the_singular(site: Website, alice: Person) -> None:
    session = await site.accounts.people.session(alice.cookie or "")
    assert session is not None
    ledger = site.ledger
    given = await ledger.issue(credit_token(1), 100, "")
    await site.accounts.credits.deposit(session.user.user_id, given, None, None)
    await ledger.spend(await site.accounts.credits.open(session.user.user_id))

    assert "1 credit for 1 request since" in words(await alice.open("/credits/usage"))


async def test_a_payment_of_another_customer_is_a_404(site: Website, alice: Person) -> None:
    bought, _ = await paid(site)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        answer = await mallory.open(f"/credits/payments/{bought.signature}")
        listed = words(await mallory.open("/credits/payments"))

    assert answer.status_code == 404
    assert "No payments yet." in listed
    assert (await alice.open(f"/credits/payments/{bought.signature}")).status_code == 200


async def test_an_administrator_finds_the_payments_of_a_customer(
    site: Website,
    alice: Person,  # noqa: ARG001 - its fixture signs her up
) -> None:
    """The list of users links to the customer, whose page shows the payments."""
    bought, _ = await paid(site)
    await site.make_administrator()
    async with Person(site, address="198.51.100.8") as admin:
        await admin.sign_in(ADMINISTRATOR)
        users = await admin.open("/admin/users")
        overview = words(await admin.open("/admin/payments"))
        found = {
            text: words(await admin.open(f"/admin/payments?q={text}"))
            for text in (bought.signature, bought.wallet, ALICE)
        }
        failures = words(await admin.open("/admin/payments?state=failed"))
        wrong = await admin.open("/admin/payments?q=nothing")
        user = next(each for each in await site.accounts.review.users(limit=9))
        customer = [
            words(await admin.open(f"/admin/users/{each.user_id}"))
            for each in await site.accounts.review.users(limit=9)
            if each.email == ALICE
        ]

    assert f"/admin/users/{user.user_id}" in users.text
    assert "10 credits 0.025 USDC 1 $0.024998" in overview
    assert "answers 0.0025 USDC 1 $0.0025" in overview
    assert "in 31 days" in overview
    for page in found.values():
        assert "0.025 USDC" in page
        assert "To do:" in page
    assert "transaction failed" in failures
    assert "Paid" not in failures.partition("Older")[0].partition("Status")[2]
    assert wrong.status_code == 422
    assert "Expected a signature, a wallet" in words(wrong)
    assert "10 credits 0.025 USDC $0.024998" in customer[0]
    assert "Payments" in customer[0]


async def test_one_page_shows_the_linked_wallets_and_their_payments(
    site: Website, alice: Person
) -> None:
    """One of two linked wallets has paid three times; an administrator sees the same sums."""
    bought, failed = await paid(site)
    at = site.clock.now()
    first, second = (str(Keypair.from_seed(bytes([each]) * 32).pubkey()) for each in (91, 92))
    rows = [
        PaidRow(number=number, begun_at=at - number, amount=amount, payer=first, worth=worth)
        for number, amount, worth in ((11, 2_500, 2_499), (12, 2_500, None))
    ]
    rows.append(PaidRow(number=13, begun_at=at, payer=first, asset=WSOL, worth=3_000))
    rows.append(
        PaidRow(number=14, begun_at=at, payer=first, state="failed", reason="transaction_failed")
    )
    insert(site.folder, *rows)
    session = await site.accounts.people.session(alice.cookie or "")
    assert session is not None
    user_id = session.user.user_id

    def link(books: AccountRows) -> None:
        for wallet in (first, second):
            books.wallets.link(user_id, Wallet(wallet), at)

    await site.accounts.people.store.transact(link)
    page = await alice.open("/credits/wallets")
    of_first = await alice.open(f"/credits/payments?wallet={first}")
    table = (await alice.open(f"/credits/payments.csv?wallet={first}")).text
    of_stranger = words(await alice.open(f"/credits/payments?wallet={bought.wallet}"))
    mistyped = [await alice.open(f"/credits/payments{end}?wallet=x") for end in ("", ".csv")]
    await site.make_administrator()
    async with Person(site, address="198.51.100.8") as admin:
        await admin.sign_in(ADMINISTRATOR)
        customer = words(await admin.open(f"/admin/users/{session.user.user_id}"))

    sums = f"0.005 USDC, 25,000 atoms of {WSOL}"
    assert f"3 payments of this wallet {sums} $0.007999" in words(page)
    assert f'href="/credits/payments?wallet={first}"' in page.text
    assert f"{second} " in words(page)
    receipts = re.findall('href="/credits/payments/([^"]*)"', of_first.text)
    assert sorted(receipts) == sorted(each.signature for each in rows)
    assert failed.signature not in table
    assert table.count("\n") == 1 + len(rows)
    assert "No payments of this wallet, or it is not linked to your account." in of_stranger
    assert [each.status_code for each in mistyped] == [404, 404]  # not all payments
    assert f"paid {sums} ($0.007999 when paid) in 3 payments" in customer
    assert "paid nothing" in customer


async def test_an_administrator_sees_ended_keys_and_alerts_of_a_customer(
    site: Website, alice: Person
) -> None:
    session = await site.accounts.people.session(alice.cookie or "")
    assert session is not None
    for name, month_credits_max, networks in (("Old bot", None, ""), ("Bot", 70, "203.0.113.0/24")):
        issued = await site.accounts.keys.create(
            session,
            name=name,
            scopes=frozenset(),
            lifetime_ms=DAY_MS,
            month_credits_max=month_credits_max,
            networks=networks,
        )
        if name == "Old bot":
            await site.accounts.keys.revoke(session, issued.line.key_id)
    rule = AlertRule(
        name="Hot <b>", mint=Mint(WSOL), field=Field("price.usd"), kind=SignalKind.ABOVE, level=9
    )
    await site.accounts.signals.make(session.user.user_id, rule)
    await site.make_administrator()
    async with Person(site, address="198.51.100.8") as admin:
        await admin.sign_in(ADMINISTRATOR)
        customer = words(await admin.open(f"/admin/users/{session.user.user_id}"))

    keys, alerts = customer.partition("API keys Key")[2].split("Usage in 30 days")
    active, revoked = keys.split("Old bot")
    assert "Expires soon" in active
    assert "0 of 70 203.0.113.0/24" in active
    assert "Revoked" in revoked
    assert "1 alert, 1 active." in alerts
    assert "Hot <b> So11…1112 : Price in USD rises above $9.00" in alerts
    assert "Each time, only on this page Active Never" in alerts
    assert "revoked key:" in alerts.partition("Audit log")[2]


async def test_every_page_names_the_operator_of_the_service(alice: Person) -> None:
    for path in ("/pricing", "/credits", "/alerts", "/watchlists"):
        page = await alice.open(path)
        assert "operated by Trader Tools Ltd" in words(page)
        for link in ("mailto:help@example.org", "https://example.org/terms"):
            assert f'href="{link}"' in page.text
    about = words(await alice.open("/operator"))
    assert "Within 14 days, to the wallet that paid." in about
    assert "Privacy https://example.org/privacy" in about


def test_amounts_are_shown_in_coins_and_bundles_have_usd_prices() -> None:
    assets = Assets(Coin("MINT", 9), {USDC: Coin("USDC", 6)})

    assert assets.amount(1_234_567_890_000, USDC) == "1,234,567.89 USDC"
    assert assets.amount(10**9, None) == "1 MINT"
    assert assets.amount(7, Mint(WSOL)) == f"7 atoms of {WSOL}"
    assert [float(price_usd(each)) for each in (0, 10, 50)] == [0.0025, 0.025, 0.1125]
