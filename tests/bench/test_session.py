"""The prototype of sessions: purchases by voucher, and the most a dishonest buyer can take."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from bench.session import PRICE, Buyer, Chain, Seller, Voucher, voucher_bytes

CALLS: Final = 20
EXPOSURE_MAX: Final = 5 * PRICE


class Scene:
    """A buyer who has approved a session with a seller for CALLS calls."""

    def __init__(self, folder: Path) -> None:
        self.chain = Chain()
        self.buyer = Buyer(self.chain, self.chain.genesis.key("buyer"))
        genesis = self.chain.genesis
        genesis.endow(self.chain.bank, self.buyer.key.pubkey(), lamports=0, atoms=10**6)
        self.seller = Seller(self.chain, folder / "sessions.sqlite", EXPOSURE_MAX)
        self.name = self.buyer.approve(self.seller.delegate.pubkey(), CALLS * PRICE)
        assert self.seller.open(self.name, self.buyer.key.pubkey())

    def voucher(self, calls: int) -> Voucher:
        return self.buyer.voucher(self.name, calls * PRICE)

    def received(self) -> int:
        return self.chain.tokens(self.chain.genesis.treasury_tokens).amount


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_every_call_is_paid_for_once(scene: Scene) -> None:
    assert all(scene.seller.pay(scene.voucher(calls)) for calls in range(1, CALLS + 1))
    assert not scene.seller.pay(scene.voucher(CALLS + 1))  # more than was approved
    assert scene.seller.take(scene.name)
    assert scene.seller.take(scene.name)  # nothing is taken twice
    assert scene.received() == CALLS * PRICE
    assert scene.chain.fees < (CALLS * 10_001) / 3


def test_an_invalid_or_repeated_voucher_buys_nothing(scene: Scene) -> None:
    first, second = scene.voucher(1), scene.voucher(2)
    stranger = scene.chain.genesis.key("stranger")
    forged = stranger.sign_message(voucher_bytes(scene.name, PRICE))
    wrong = [
        second,  # a call was left out
        scene.buyer.voucher(scene.name, 0),
        scene.buyer.voucher(bytes(32), PRICE),
        replace(first, atoms=2 * PRICE),
        replace(first, signature=forged),
    ]
    assert [scene.seller.pay(each) for each in wrong] == [False] * len(wrong)
    assert scene.seller.pay(first)
    assert not scene.seller.pay(first)  # again


def test_a_buyer_who_revokes_takes_no_more_than_the_exposure(scene: Scene) -> None:
    paid = 0
    for calls in range(1, CALLS + 1):
        if calls == 8:
            scene.buyer.revoke()
        paid += scene.seller.pay(scene.voucher(calls))
    assert not scene.seller.take(scene.name)
    assert scene.seller.lost() == paid * PRICE - scene.received() <= EXPOSURE_MAX
    assert paid < CALLS


def test_a_buyer_without_an_approval_opens_no_session(scene: Scene) -> None:
    other = Buyer(scene.chain, scene.chain.genesis.key("other"))
    scene.chain.genesis.endow(scene.chain.bank, other.key.pubkey(), lamports=0, atoms=10**6)
    assert not scene.seller.open(bytes(32), other.key.pubkey())
