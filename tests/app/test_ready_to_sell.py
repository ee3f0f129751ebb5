"""The doctor and the start of the api find faults of sales, and name the remedies."""

import asyncio
import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from solders.account import Account
from solders.pubkey import Pubkey
from typer.testing import CliRunner

from mintscope.app.cli.payments import app as sales_app
from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Finding, Level
from mintscope.app.doctor.store import check_payments
from mintscope.app.payments import CannotSell, expect_funds
from mintscope.app.stores.stores import expect_own_stores, open_market
from mintscope.kit.errors import PriceUnavailable, ServiceUnavailable
from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.price_cache import TokenReserves
from mintscope.payments.price_sources import RpcReserves, Vaults
from mintscope.payments.protocol.envelope import TOKEN_PROGRAM
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.solana.blocks import DOLLARS, PYUSD, USDC, USDT, WSOL, Endpoint
from support.processes.listening import listening
from support.scenes.payments.payment_world import World, config_of, selling
from support.scenes.stores import money_in


async def findings(world: World, **changes: Any) -> list[Finding]:
    async with listening(world.node) as url:
        config = config_of(world, url, **changes)
        return await asyncio.to_thread(lambda: list(check_payments(config)))


async def test_the_doctor_finds_no_fault_in_working_settings_of_sales(world: World) -> None:
    found = await findings(world)

    assert {finding.level for finding in found} == {Level.OK}
    assert [finding.what for finding in found][-2:] == [
        "payments: 10 SOL for network fees",
        "payments: 1 USD for one USDC",
    ]


@pytest.mark.parametrize("fault", ["refused", "finalized"])
async def test_the_doctor_accepts_a_node_without_the_level_confirmed(
    world: World, fault: str
) -> None:
    world.slots(9)
    world.go_wrong(confirmed=fault)
    found = await findings(world)

    assert {finding.level for finding in found} == {Level.OK}, found


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({"enabled": False}, Level.OK, "not enabled"),
        ({"asset": USDT}, Level.FAIL, "the chain has no such account"),
        ({"also_usdc": True}, Level.OK, f"token {USDC} and treasury account"),
        ({"also_usdc": True, "usdc_mint": USDT}, Level.FAIL, "the chain has no such account"),
        ({"also_usdc": True, "asset": USDC}, Level.FAIL, "take also_usdc out"),
        ({"decimals": 9}, Level.FAIL, "expected 9 decimals; it has 6: correct the configuration"),
        ({"pay_to": WSOL}, Level.FAIL, "spl-token create-account"),
        ({"fee_payer_key": None, "fee_payer_file": "/nowhere"}, Level.FAIL, "cannot be read"),
        ({"fee_payer_lamports_min": 10**11}, Level.WARN, "10 SOL for network fees"),
        ({"price_source": "market"}, Level.OK, "the price is known only after"),
        (
            {"price_source": "feed", "price_feed_url": SecretStr("http://127.0.0.1:1")},
            Level.WARN,
            "no price, so nothing is sold",
        ),
    ],
)
async def test_every_fault_of_the_settings_of_sales_is_found(
    world: World, changes: dict[str, Any], level: Level, said: str
) -> None:
    if "fee_payer_file" in changes:
        changes = changes | {"fee_payer_file": Path(changes["fee_payer_file"])}
    found = await findings(world, **changes)

    assert any(finding.level is level and said in str(finding) for finding in found), found


async def test_a_fee_payer_without_money_is_refused(world: World) -> None:
    pauper = world.vm.genesis.key("pauper")
    found = await findings(world, fee_payer_key=SecretStr(str(pauper)))

    assert any("send it some SOL" in finding.what for finding in found)
    with pytest.raises(CannotSell, match="it has 900880"):
        expect_funds(900_880, Wallet(str(pauper.pubkey())))
    expect_funds(900_881, Wallet(str(pauper.pubkey())))


def enable(monkeypatch: pytest.MonkeyPatch, world: World, folder: Path) -> None:
    """Set the environment variables of an installation in *folder* that sells."""
    genesis = world.vm.genesis
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(folder))
    monkeypatch.setenv("MINTSCOPE_PAYMENTS__ENABLED", "true")
    monkeypatch.setenv("MINTSCOPE_PAYMENTS__PAY_TO", str(genesis.treasury.pubkey()))
    monkeypatch.setenv("MINTSCOPE_PAYMENTS__FEE_PAYER_KEY", str(genesis.fee_payer))


def test_sales_are_off_if_payments_are_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))
    expect_own_stores(Config(data_dir=tmp_path))
    status = CliRunner().invoke(sales_app, ["sales", "status"])
    resumed = CliRunner().invoke(sales_app, ["sales", "resume"])

    assert status.stdout == "off: payments.enabled is false\n0 payments pending\n"
    assert resumed.stdout == "off: payments.enabled is false\n"


async def test_a_fee_payer_without_enough_sol_is_reported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = world.vm.genesis.key("short of SOL")
    world.vm.genesis.endow(world.vm.bank, short.pubkey(), lamports=2_890_879)
    found = await findings(world, fee_payer_key=SecretStr(str(short)))
    enable(monkeypatch, world, tmp_path)
    async with money_in(tmp_path) as money:
        books = money.books
        await books.fill_fund(2_890_879, mark=await books.fund_mark())
        reported = await asyncio.to_thread(CliRunner().invoke, sales_app, ["sales", "status"])
        await books.fill_fund(2_890_880, mark=await books.fund_mark())
        open_again = await asyncio.to_thread(CliRunner().invoke, sales_app, ["sales", "status"])

    assert any(
        finding.level is Level.FAIL and "nothing is sold" in finding.what for finding in found
    )
    assert reported.stdout.startswith("closed: the fee payer has 2890879 lamports")
    assert open_again.stdout.startswith("open\n")


async def test_a_frozen_treasury_is_reported(world: World) -> None:
    """The treasury's token account is frozen, so the chain would refuse every payment."""
    tokens = world.vm.genesis.treasury_tokens
    account = world.vm.bank.account(tokens)
    assert account is not None
    # Byte 108 of a token account is its state; 2 is frozen.
    data = account.data[:108] + b"\x02" + account.data[109:]
    world.vm.bank.put(tokens, Account(account.lamports, data, account.owner))
    found = await findings(world)

    assert any(
        finding.level is Level.FAIL and "spl-token thaw" in finding.what for finding in found
    )
    with pytest.raises(UnusablePaymentToken, match="is frozen"):
        await world.chain().expect_usable()


async def test_health_names_a_treasury_that_takes_no_payment(world: World) -> None:
    """One of two treasury accounts is frozen; payments in the other token stay possible."""
    genesis = world.vm.genesis
    tokens = genesis.tokens_of(genesis.treasury.pubkey(), genesis.usdc)
    async with listening(world.node) as url:
        config = config_of(world, url, also_usdc=True)
        async with selling(config, world.clock) as sales:
            await sales.expect_ready()
            await sales.expect_selling()
            account = world.vm.bank.account(tokens)
            assert account is not None
            # Byte 108 of a token account is its state; 2 is frozen.
            data = account.data[:108] + b"\x02" + account.data[109:]
            world.vm.bank.put(tokens, Account(account.lamports, data, account.owner))
            world.seconds(60)
            for each in sales.payment_tokens:
                with suppress(PriceUnavailable):
                    await each.price_cache.price_list()

            await sales.expect_open()
            with pytest.raises(ServiceUnavailable, match=r"closed in USDC: .*treasury"):
                await sales.expect_selling()


async def test_nothing_is_sold_if_payments_settle_on_another_chain(
    world: World,
) -> None:
    methods = world.methods
    methods.by_name = {**methods.by_name, "getGenesisHash": lambda _: "this chain"}
    async with listening(world.node) as url:
        config = config_of(world, url)
        async with open_market(config) as market:
            await market.store.claim("another chain")
        async with selling(config, world.clock) as sales:
            with pytest.raises(CannotSell, match="expected a node of the chain that is followed"):
                await sales.expect_ready()
            await sales.expect_ready(is_restart=True)
            with pytest.raises(PriceUnavailable):
                await sales.payment_tokens[0].price_cache.price_list()
            with pytest.raises(ServiceUnavailable, match="payments settle on another chain"):
                await sales.expect_selling()


async def test_the_start_refuses_a_missing_treasury_account_but_not_a_missing_node(
    world: World,
) -> None:
    async def start(url: str, **changes: Any) -> bool:
        config = config_of(world, url, **changes)
        async with selling(config, world.clock) as sales:
            await sales.expect_ready()
            return sales.payment_tokens[0].price_cache.doubt is None

    async with listening(world.node) as url:
        assert await start(url)
        with pytest.raises(UnusablePaymentToken, match="create it once with"):
            await start(url, pay_to=WSOL)
    assert not await start("http://127.0.0.1:1")


async def test_a_restarted_api_starts_even_if_nothing_can_be_sold(
    world: World,
) -> None:
    async with (
        listening(world.node) as url,
        selling(config_of(world, url, pay_to=WSOL), world.clock) as sales,
    ):
        await sales.expect_ready(is_restart=True)
        assert sales.payment_tokens[0].price_cache.doubt is not None


async def test_stopped_sales_are_reported_and_resumed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with money_in(tmp_path) as money:
        await money.books.stop_sales(now=world.clock.now(), why="a test")
    found = await findings(world)
    enable(monkeypatch, world, tmp_path)
    reported = await asyncio.to_thread(CliRunner().invoke, sales_app, ["sales", "status"])
    resumed = await asyncio.to_thread(CliRunner().invoke, sales_app, ["sales", "resume"])

    assert any(
        finding.level is Level.FAIL and "stopped: a test" in str(finding) for finding in found
    )
    assert reported.stdout == "stopped: a test\n0 payments pending\n"
    assert resumed.stdout == "open\n"
    async with money_in(tmp_path) as money:
        assert await money.books.why_stopped() is None


def vault(mint: str, amount: int) -> dict[str, Any]:
    # A token account of 165 bytes: mint, owner, amount, and the rest.
    data = bytes(Pubkey.from_string(mint)) + bytes(32) + amount.to_bytes(8, "little") + bytes(93)
    return {"owner": TOKEN_PROGRAM, "data": [base64.b64encode(data).decode(), "base64"]}


@pytest.mark.parametrize("wrong", ["", "base", "quote", "missing"])
async def test_reserves_are_read_from_the_vaults(wrong: str) -> None:
    token = USDT
    accounts = {
        "base": vault(USDC if wrong == "base" else token, 5),
        "sol": vault(TOKEN_PROGRAM if wrong == "quote" else WSOL, 6),
        "more": None if wrong == "missing" else vault(token, 7),
        "usdc": vault(USDC, 8),
    }

    def answer(request: httpx.Request) -> httpx.Response:
        address = json.loads(request.content)["params"][0]
        return httpx.Response(200, json={"result": {"value": accounts[address]}})

    pools = [Vaults(Wallet("base"), Wallet("sol")), Vaults(Wallet("more"), Wallet("usdc"))]
    reserves = RpcReserves(
        Endpoint(url="http://node"),
        base=token,
        pools=pools,
        transport=httpx.MockTransport(answer),
    )
    if wrong:
        with pytest.raises(UnusablePaymentToken, match=r"payments\.pools"):
            await reserves.read()
    else:
        assert await reserves.read() == TokenReserves(base=12, quotes={WSOL: 6, USDC: 8})
    await reserves.aclose()


@pytest.mark.parametrize(
    ("dollars", "is_usable"), [(DOLLARS, True), (frozenset({USDC}), False), (None, True)]
)
async def test_a_pool_is_usable_if_its_other_token_is_a_configured_dollar(
    dollars: frozenset[Mint] | None, *, is_usable: bool
) -> None:
    accounts = {"base": vault(USDT, 5), "pyusd": vault(PYUSD, 6)}

    def answer(request: httpx.Request) -> httpx.Response:
        address = json.loads(request.content)["params"][0]
        return httpx.Response(200, json={"result": {"value": accounts[address]}})

    reserves = RpcReserves(
        Endpoint(url="http://node"),
        base=USDT,
        pools=[Vaults(Wallet("base"), Wallet("pyusd"))],
        transport=httpx.MockTransport(answer),
        **({} if dollars is None else {"dollars": dollars}),
    )
    if is_usable:
        assert await reserves.read() == TokenReserves(base=5, quotes={PYUSD: 6})
    else:
        with pytest.raises(UnusablePaymentToken, match=r"one of market\.dollars"):
            await reserves.read()
    await reserves.aclose()
