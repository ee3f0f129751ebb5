"""A chain for payments alone, without a market, whose clock is moved by tests."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope_devchain.blockstore import SlotPace, slot_pace
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.pulse import Pulse
from mintscope_devchain.server import answering
from mintscope_devchain.svm.genesis import Genesis
from mintscope_devchain.svm.vm import Vm
from support.processes.listening import listening
from support.scenes.payments.payment_build import Recipe, terms_of

START = UnixMs(1_800_000_000_000)
PRICE = 2_500
TOWER = slot_pace(400, 12_800)  # the pace of mainnet before Alpenglow


class PayingChain:
    """A chain without a market, with a buyer who has one SOL and 1,000 payment tokens."""

    def __init__(self, seed: int = 7, pace: SlotPace = SlotPace()) -> None:  # noqa: B008
        self.clock = ManualClock(START)
        self.vm = Vm(clock=self.clock, seed=seed, pace=pace)
        self.pulse = Pulse(self.vm, slot_ms=pace.slot)
        self.methods = Methods(self.vm)
        self.buyer = self.vm.genesis.key("buyer")
        self.vm.genesis.endow(
            self.vm.bank, self.buyer.pubkey(), lamports=10**9, atoms=1_000 * 10**6
        )

    def call(self, method: str, *params: object) -> Any:
        return self.methods.call(method, list(params))

    def slots(self, count: int) -> None:
        self.clock.advance(count * self.vm.pace.slot)
        self.pulse.tick()

    def blockhash(self) -> Hash:
        return self.vm.block("processed").blockhash

    def payment(
        self,
        memo: str = "a quote",
        *,
        amount: int = PRICE,
        blockhash: Hash | None = None,
    ) -> VersionedTransaction:
        return payment(
            self.vm.genesis,
            self.buyer,
            memo=memo,
            amount=amount,
            blockhash=blockhash or self.blockhash(),
        )

    def send(self, transaction: VersionedTransaction, **config: object) -> str:
        text = b64encode(bytes(transaction)).decode()
        signature = self.call("sendTransaction", text, {"encoding": "base64", **config})
        assert isinstance(signature, str)
        return signature

    def pay(self, memo: str = "a quote", *, amount: int = PRICE) -> str:
        """Send a payment without preflight, as facilitators do, and return its signature."""
        return self.send(self.payment(memo, amount=amount), skipPreflight=True)

    def status(self, signature: str) -> Any:
        return self.call("getSignatureStatuses", [signature])["value"][0]

    def received(self, commitment: str = "processed") -> int:
        """Return the number of payment tokens, in atoms, that the treasury has at *commitment*."""
        tokens = str(self.vm.genesis.treasury_tokens)
        found = self.call("getTokenAccountBalance", tokens, {"commitment": commitment})
        return int(found["value"]["amount"])

    def entry(self, signature: str) -> Any:
        return self.call(
            "getTransaction",
            signature,
            {"commitment": "confirmed", "maxSupportedTransactionVersion": 0},
        )


def payment(
    genesis: Genesis,
    buyer: Keypair,
    *,
    memo: str,
    blockhash: Hash,
    amount: int = PRICE,
) -> VersionedTransaction:
    """Return a payment as official clients build it, signed by payer and fee payer."""
    recipe = Recipe(
        amount=amount,
        memo=memo.encode(),
        terms=terms_of(genesis),
        payer=buyer,
        units=b"\x02" + (60_000).to_bytes(4, "little"),
        blockhash=blockhash,
    )
    return VersionedTransaction(recipe.message(), [genesis.fee_payer, buyer])


@asynccontextmanager
async def served(chain: PayingChain) -> AsyncIterator[str]:
    app = answering(chain.methods, chain.vm.faults)
    async with listening(app) as url:
        yield url


@pytest.fixture
def chain() -> PayingChain:
    return PayingChain()
