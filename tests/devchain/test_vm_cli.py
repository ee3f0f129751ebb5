"""`mintscope faucet` and `mintscope faults`, against a chain that is served."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from paying import PayingChain, served
from typer.testing import CliRunner, Result

from mintscope.app.running.devchain import app

WALLET = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"


@pytest.fixture
async def url(chain: PayingChain) -> AsyncIterator[str]:
    async with served(chain) as url:
        yield url


async def run(*arguments: str) -> Result:
    """Run `mintscope` in a thread, because the server that it calls needs this event loop."""
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, arguments))


async def test_the_faucet_sends_sol_and_payment_tokens(chain: PayingChain, url: str) -> None:
    given = await run("faucet", WALLET, "--sol", "0.5", "--tokens", "2.5", "--url", url)
    chain.slots(1)
    newest = {"commitment": "processed"}
    balance = chain.call("getBalance", WALLET, newest)
    supply = chain.call("getTokenSupply", str(chain.vm.genesis.mint), newest)

    assert given.exit_code == 0
    assert chain.status(given.stdout.strip())["err"] is None
    assert balance["value"] == 500_000_000
    assert supply["value"]["amount"] == "1002500000"


async def test_faults_are_set_shown_and_cleared(chain: PayingChain, url: str) -> None:
    knobs = '{"landing": {"kind": "late", "ms": 5}, "blind": ["getTransaction"]}'
    reported = [await run("faults", *given, "--url", url) for given in ([knobs], [], ["{}"])]

    assert [each.exit_code for each in reported] == [0, 0, 0]
    assert reported[0].stdout == reported[1].stdout != reported[2].stdout
    assert '"kind": "late"' in reported[1].stdout
    assert chain.vm.faults.knobs.landing is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["faucet", "no one"], "expected a Solana address"),
        (["faucet", WALLET, "--sol", "-1"], "expected a number from 0 to 1000"),
        (["faucet", WALLET, "--sol", "much"], "expected a number"),
        (["faucet", WALLET, "--sol", "9e999999"], "expected a number from 0 to 1000"),
        (["faucet", WALLET, "--tokens", "0.0000001"], "expected a number"),
        (["faults", "{"], "expected JSON"),
        (["faults", '{"landing": 3}'], "the devchain refused: Invalid params"),
    ],
)
async def test_invalid_input_is_reported_in_one_message(
    url: str, arguments: list[str], said: str
) -> None:
    refused = await run(*arguments, "--url", url)

    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.output


async def test_an_unreachable_chain_is_reported_in_one_message() -> None:
    refused = await run("faults", "--url", "http://127.0.0.1:1")

    assert refused.exit_code == 2
    assert refused.stderr.startswith("no devchain answers at http://127.0.0.1:1")
