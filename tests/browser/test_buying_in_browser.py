"""A purchase from a wallet in the browser: the payer gets the credits, and pays once."""

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from buyers import (
    balance,
    begin,
    choose,
    forgive,
    lose,
    lose_before,
    secret_of,
    state,
)
from page_checks import look_at
from playwright.async_api import Browser, Dialog, Route, expect

from mintscope.app.config.config import WebConfig
from mintscope_devchain.svm.genesis import Genesis
from support.scenes.payments.shopfront import Shopfront, shopfront
from support.scenes.people.browsing import MOVED, Visitor, visiting
from support.scenes.website import MINUTE_MS

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET: Final = re.compile("svc_credit_[0-9a-f]{64}")
NOT_SIGNED: Final = {"strange": "not-connected", "refuses": "declined", "closes": "closed"}
LOOKS: Final = {"waits": "approve", "refuses": "declined", "signs": "bought"}
PRICES: Final = {10: 25_000, 50: 112_500, 100: 200_000, 500: 750_000}
MOVED_MAX: Final = 0.02


@pytest_asyncio.fixture(loop_scope="session")
async def shop(lasting_shop: Shopfront) -> Shopfront:
    """Return the shop six minutes later, when no limit counts the requests of the previous test."""
    lasting_shop.world.seconds(6 * MINUTE_MS // 1_000)
    return lasting_shop


async def sold_once(shop: Shopfront, before: int, secret: str) -> None:
    """Expect one new payment for ten credits, these credits on *secret*, and correct books.

    before   the amount that the treasury had received earlier
    """
    assert shop.world.received() - before == PRICES[10]
    assert await balance(shop, secret) == 10
    assert await shop.world.audit() == []


async def test_the_demo_wallet_pays_only_after_its_dialog_is_accepted(
    chromium: Browser, tmp_path: Path
) -> None:
    """No real wallet knows the chain of a demo: with `--wallet`, the page offers a demo wallet."""
    key = Genesis(0).key("visitor")
    web = WebConfig(demo_wallet_seed=key.secret().hex())
    asked: list[str] = []
    async with shopfront(tmp_path, web=web) as shop:
        vm = shop.world.vm
        vm.genesis.endow(vm.bank, key.pubkey(), lamports=0, atoms=10**9)
        before = shop.world.received()
        async with visiting(chromium, shop.site.origin) as visitor:

            async def refuse_the_first(dialog: Dialog) -> None:
                asked.append(dialog.message)
                await (dialog.dismiss() if len(asked) == 1 else dialog.accept())

            visitor.page.on("dialog", refuse_the_first)
            await visitor.open("/buy/10")
            wallet = visitor.page.locator("#purchase").get_by_role("button", name="Demo wallet")
            await wallet.click()
            await state(visitor, "declined")
            await visitor.open("/buy/10")
            await wallet.click()
            await sold_once(shop, before, await secret_of(visitor))
            await keep(visitor)
    assert asked == ["Demo wallet: sign this payment?"] * 2


@pytest.mark.parametrize("has_wallet", [True, False])
@pytest.mark.parametrize("size", [(390, 844), (1280, 900)])
async def test_nothing_moves_when_the_search_for_a_wallet_ends(
    chromium: Browser, shop: Shopfront, size: tuple[int, int], *, has_wallet: bool
) -> None:
    async with visiting(chromium, shop.site.origin, size=size) as visitor:
        await visitor.page.add_init_script(MOVED)
        if has_wallet:
            await shop.wallet().enter(visitor.page)
        await visitor.open("/buy/10")
        if has_wallet:
            await visitor.page.get_by_role("button", name="Test wallet").wait_for()
        else:
            await visitor.reads("There is no Solana wallet in this browser.")
        await visitor.page.wait_for_timeout(200)  # until all layout shifts are recorded
        moved = await visitor.page.evaluate("window.moved")
    assert sum(float(each.partition(":")[0]) for each in moved) <= MOVED_MAX, moved


async def test_each_bundle_is_bought_copied_downloaded_and_then_hidden(
    chromium: Browser, shop: Shopfront
) -> None:
    for bundle, price in PRICES.items():
        before = shop.world.received()
        async with visiting(chromium, shop.site.origin) as visitor:
            await begin(visitor, shop.wallet(f"buyer of {bundle}"), bundle)
            secret = await secret_of(visitor)
            assert SECRET.fullmatch(secret)
            assert shop.world.received() - before == price
            assert await balance(shop, secret) == bundle
            await visitor.page.get_by_role("button", name="Copy the credit token").click()
            assert await visitor.page.evaluate("navigator.clipboard.readText()") == secret
            async with visitor.page.expect_download() as downloading:
                await visitor.page.get_by_role("button", name="Download").click()
            saved = await (await downloading.value).path()
            assert saved.read_text() == f"{secret}\n"
            await keep(visitor)
            assert secret not in await visitor.page.content()
    assert await shop.world.audit() == []


async def keep(visitor: Visitor) -> None:
    """Confirm on the page that the credit token is saved, and press Done."""
    await expect(visitor.page.get_by_role("button", name="Done")).to_be_disabled()
    await visitor.page.get_by_label("I saved it").check()
    await visitor.press("Done")


async def test_a_buyer_who_leaves_an_unsaved_token_is_asked_and_gets_it_back(
    shop: Shopfront, buyer: Visitor
) -> None:
    before = shop.world.received()
    await begin(buyer, shop.wallet("forgetful"))
    secret = await secret_of(buyer)
    asked: list[str] = []

    async def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.accept()

    buyer.page.on("dialog", leave)
    await buyer.open("/pricing")
    assert asked == ["beforeunload"]
    await buyer.open("/buy/50")
    assert await secret_of(buyer) == secret
    await keep(buyer)
    await buyer.open("/buy/10")
    await state(buyer, "choose")
    await sold_once(shop, before, secret)


async def test_a_wallet_that_does_not_sign_pays_nothing(shop: Shopfront, buyer: Visitor) -> None:
    before, wallet = shop.world.received(), shop.wallet("reluctant")
    await wallet.enter(buyer.page)
    for manner, then in NOT_SIGNED.items():
        wallet.manner = manner
        await buyer.open("/buy/10")
        await choose(buyer)
        await state(buyer, then)
        await buyer.reads("othing was paid")  # at the beginning of a sentence, or within it
    wallet.manner = "waits"
    await buyer.open("/buy/10")
    await choose(buyer)
    await state(buyer, "approve")
    await buyer.page.get_by_role("button", name="Cancel").click()
    await state(buyer, "cancelled")
    assert shop.world.received() == before
    assert wallet.signed == []

    wallet.manner = "signs"
    await buyer.page.get_by_role("link", name="Start again").click()
    await choose(buyer)
    await sold_once(shop, before, await secret_of(buyer))


async def test_a_cancelled_payment_that_is_signed_later_is_not_sent(
    shop: Shopfront, buyer: Visitor
) -> None:
    before, wallet = shop.world.received(), shop.wallet("late")
    wallet.manner = "waits"
    await begin(buyer, wallet)
    await state(buyer, "approve")
    await buyer.page.get_by_role("button", name="Cancel").click()
    await state(buyer, "cancelled")
    async with buyer.page.expect_console_message() as reported:
        wallet.goes_on.set()
    assert (await reported.value).text == "signed"
    assert len(wallet.signed) == 1
    assert shop.world.received() == before
    assert await buyer.page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_connection_lost_while_a_payment_is_sent_loses_no_credits(
    shop: Shopfront, buyer: Visitor, *, arrives: bool
) -> None:
    before = shop.world.received()
    await buyer.page.route("**/buy/10", lose if arrives else lose_before)
    await begin(buyer, shop.wallet(f"unlucky {arrives}"))
    await state(buyer, "lost")
    await buyer.reads("Do not pay again")
    assert (shop.world.received() > before) is arrives
    await buyer.page.unroute("**/buy/10")
    await buyer.page.get_by_role("button", name="Ask now").click()
    await sold_once(shop, before, await secret_of(buyer))


async def test_a_refusal_after_a_lost_answer_counts_once_no_payment_can_land(
    shop: Shopfront, buyer: Visitor
) -> None:
    before = shop.world.received()
    await buyer.page.route("**/buy/10", lose_before)
    await begin(buyer, shop.wallet("doubtful"))
    await state(buyer, "lost")
    shop.world.seconds(125)  # more than the 120 s for which the price holds
    await buyer.page.unroute("**/buy/10")
    async with buyer.page.expect_response("**/buy/10") as refusing:
        await buyer.page.get_by_role("button", name="Ask now").click()
    assert (await refusing.value).status == 402
    await state(buyer, "lost")
    assert await buyer.page.evaluate("localStorage.length") == 1
    # More than DOUBT_MS of sales-buy.js: the lost payment cannot land any more.
    later_ms = await buyer.page.evaluate("Date.now()") + 181_000
    await buyer.page.clock.set_fixed_time(later_ms / 1_000)
    await state(buyer, "refused")
    await buyer.reads("That took too long")
    assert await buyer.page.evaluate("localStorage.length") == 0
    forgive(buyer, 402)
    assert shop.world.received() == before


async def test_a_new_page_finds_the_purchase_of_a_closed_page_with_any_wallet(
    chromium: Browser, shop: Shopfront
) -> None:
    before = shop.world.received()
    async with visiting(chromium, shop.site.origin) as buyer:
        payer, other = shop.wallet("first"), shop.wallet("second")

        arrived = asyncio.Event()

        async def hold(route: Route) -> None:
            if route.request.method == "POST":
                await route.fetch()
                arrived.set()  # the page is closed before it gets the answer
            else:
                await route.continue_()

        await buyer.page.route("**/buy/10", hold)
        await begin(buyer, payer)
        await arrived.wait()
        await state(buyer, "sending")
        again = Visitor(await buyer.page.context.new_page(), shop.site.origin)
        await buyer.page.close()
        await other.enter(again.page)
        await again.open("/buy/500")
        secret = await secret_of(again)
        await sold_once(shop, before, secret)
        assert other.signed == []
        await keep(again)
        assert again.mishaps == []


async def test_two_tabs_pay_once(chromium: Browser, shop: Shopfront) -> None:
    before, wallet = shop.world.received(), shop.wallet("hasty")
    async with visiting(chromium, shop.site.origin) as first:
        wallet.manner = "waits"
        await begin(first, wallet)
        await state(first, "approve")
        second = Visitor(await first.page.context.new_page(), shop.site.origin)
        await begin(second, wallet)
        await state(second, "elsewhere")
        wallet.goes_on.set()
        secret = await secret_of(first)
        await second.page.reload()
        assert await secret_of(second) == secret
        await sold_once(shop, before, secret)
        await keep(second)
        await first.page.get_by_label("I saved it").check()
        assert second.mishaps == []


async def test_another_wallet_than_the_connected_one_does_not_pay(
    shop: Shopfront, buyer: Visitor
) -> None:
    before, wallet = shop.world.received(), shop.wallet("signer")
    wallet.shows = shop.wallet("shown").key
    await begin(buyer, wallet)
    await state(buyer, "refused")
    await buyer.reads("Another wallet has signed")
    forgive(buyer, 402)

    wallet.manner = "waits"
    await buyer.page.get_by_role("link", name="Start again").click()
    await choose(buyer)
    await state(buyer, "approve")
    await buyer.page.evaluate("switchWallet('11111111111111111111111111111111')")
    await state(buyer, "switched")
    assert shop.world.received() == before
    assert await buyer.page.evaluate("localStorage.length") == 0


async def test_credits_go_into_the_account_of_the_signed_in_buyer(
    shop: Shopfront, buyer: Visitor
) -> None:
    before = shop.world.received()
    await buyer.sign_up("ann@buying.example")
    await begin(buyer, shop.wallet("ann"), 50)
    await state(buyer, "deposited")
    await buyer.reads("50 credits are in your account")
    await buyer.open("/buy/10?into=token")
    await choose(buyer)
    secret = await secret_of(buyer)
    assert await balance(shop, secret) == 10
    await keep(buyer)
    assert shop.world.received() - before == PRICES[50] + PRICES[10]
    held = shop.site.rows("SELECT balance FROM credit_account WHERE owner IS NOT NULL")
    assert (50,) in held
    assert await shop.world.audit() == []


async def test_a_wallet_with_too_few_tokens_signs_nothing_and_pays_nothing(
    shop: Shopfront, buyer: Visitor
) -> None:
    poor, before = shop.wallet("poor", atoms=PRICES[10] - 1), shop.world.received()
    await begin(buyer, poor)
    await state(buyer, "again")
    await buyer.reads("This wallet has too little SCOPE")
    assert poor.signed == []
    forgive(buyer, 422)
    assert shop.world.received() == before


async def test_the_page_waits_for_a_slow_payment(shop: Shopfront, buyer: Visitor) -> None:
    before = shop.world.received()
    shop.world.go_wrong(blind=["getSignatureStatuses"])
    await begin(buyer, shop.wallet("patient"))
    await state(buyer, "waiting")
    await buyer.reads("Do not pay again")
    forgive(buyer, 503)
    shop.world.go_wrong()
    secret = await secret_of(buyer)
    await sold_once(shop, before, secret)
    await keep(buyer)


LEGACY_WALLET: Final = """() => {
  const features = {
    "standard:connect": { version: "1.0.0", connect: async () => ({ accounts: [] }) },
    "solana:signTransaction": {
      version: "1.0.0", supportedTransactionVersions: ["legacy"], signTransaction: async () => [],
    },
  };
  const wallet = {
    version: "1.0.0", name: "Old wallet", chains: ["solana:mainnet"], accounts: [], features,
  };
  const detail = ({ register }) => register(wallet);
  dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail }));
}"""


async def test_every_page_of_a_purchase_passes_every_check(
    chromium: Browser, shop: Shopfront
) -> None:
    faults = []
    async with visiting(chromium, shop.site.origin) as visitor:
        await visitor.open("/pricing")
        faults += await look_at(visitor.page, "pricing")
        await visitor.open("/buy/10")
        await expect(visitor.page.get_by_text("There is no Solana wallet")).to_be_visible()
        faults += await look_at(visitor.page, "buy-no-wallet")
        await visitor.page.evaluate(LEGACY_WALLET)
        await expect(visitor.page.get_by_text("Old wallet cannot pay here.")).to_be_visible()
        await expect(visitor.page.get_by_text("There is no Solana wallet")).to_be_hidden()
        wallet = shop.wallet("looker")
        await wallet.enter(visitor.page)
        await visitor.open("/buy/10")
        await expect(visitor.page.get_by_role("button", name="Test wallet")).to_be_visible()
        faults += await look_at(visitor.page, "buy-choose")
        for manner, then in LOOKS.items():
            wallet.manner = manner
            await visitor.open("/buy/10")
            await choose(visitor)
            await state(visitor, then)
            faults += await look_at(visitor.page, f"buy-{then}")
        await visitor.page.get_by_label("I saved it").check()
    assert faults == []


async def test_a_buyer_may_choose_usdc(chromium: Browser, tmp_path: Path) -> None:
    async with (
        shopfront(tmp_path, takes_usdc=True) as shop,
        visiting(chromium, shop.site.origin) as visitor,
    ):
        wallet = shop.wallet("buyer", usdc_atoms=10**6)
        await wallet.enter(visitor.page)
        await visitor.open("/pricing")
        await visitor.page.get_by_role("link", name="Buy 10 credits").click()
        await visitor.page.get_by_role("link", name="USDC 0.025").click()
        await choose(visitor)
        await state(visitor, "bought")

        assert shop.world.received(shop.world.usdc_terms) == 25_000
        assert shop.world.received() == 0
        assert await balance(shop, await secret_of(visitor)) == 10
