"""Lists count the traders of five minutes as the distinct signers of the swaps in them."""

from random import Random
from typing import Final

import numpy as np

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.log import signer_number
from mintscope.market.screening.snapshot import (
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    SlotTrades,
)
from mintscope.market.screening.token_list import TokenList

BEGIN: Final = UnixS(1_760_000_040)
MINTS: Final = [Mint(f"mint{n}") for n in range(4)]
WALLETS: Final = [f"Wa{n:02}Xyz9" for n in range(30)]


def listing() -> TokenList:
    at = FoldedTo(0, Slot(0), BEGIN)
    tokens = TokenList(at)
    mints = [
        MintAsFolded(
            mint=mint, since=BEGIN, state=None, facts=None, before=(None,) * 3, minutes=[], parts=[]
        )
        for mint in MINTS
    ]
    tokens.seed(MintPage(folded=at, mints=mints, last=len(mints)))
    return tokens


def test_traders_are_the_distinct_signers_of_five_minutes() -> None:
    random = Random(6)
    tokens = listing()
    time = BEGIN
    reported: list[tuple[UnixS, Mint, str]] = []
    compared = 0
    for seq in range(1, 400):
        time = UnixS(time + random.choice((0, 1, 2, 20)))
        mints = random.sample(MINTS[:3], random.randrange(1, 3))
        trades = []
        for mint in mints:
            wallets = {random.choice(WALLETS) for _ in range(random.randrange(1, 4))}
            reported += [(time, mint, wallet) for wallet in wallets]
            numbers = tuple(sorted(map(signer_number, wallets)))
            trades.append(MintTrades(mint, 10, 10, 1, 1.0, 0.1, 1.0, signers=numbers))
        tokens.apply([SlotTrades(FoldedTo(seq, Slot(seq), time), trades)])
        found = tokens.listed().columns.column("traders_m5")
        if time - BEGIN < 300:
            assert np.isnan(found).all()
            continue
        recent = {(mint, wallet) for at, mint, wallet in reported if at > time - 300}
        assert found.tolist() == [sum(mint == each for mint, _ in recent) for each in MINTS]
        compared += 1
    assert compared > 200


def test_traders_are_unknown_for_five_minutes_after_a_token_is_read_again() -> None:
    tokens = listing()
    for seq in range(1, 13):
        at = FoldedTo(seq, Slot(seq), UnixS(BEGIN + 60 * seq))
        signers = (signer_number(WALLETS[0]),)
        trades = [MintTrades(mint, 10, 10, 1, 1.0, 0.1, 1.0, signers=signers) for mint in MINTS]
        tokens.apply([SlotTrades(at, trades)])
        if seq == 6:
            again = MintAsFolded(
                mint=MINTS[0], since=BEGIN, state=MintFold().state(), facts=None,
                before=(None,) * 3, minutes=[], parts=[],
            )  # fmt: skip
            tokens.seed(MintPage(folded=at, mints=[again], last=1))
        found = tokens.listed().columns.column("traders_m5")
        if seq >= 5:
            assert found[1:4].tolist() == [1.0, 1.0, 1.0]
            again_at = found[0 if seq < 6 else len(MINTS)]  # it has a new row since then
            assert np.isnan(again_at) if 6 <= seq < 11 else again_at == 1.0, seq


def test_signers_are_distinguished_by_the_beginning_that_the_log_keeps() -> None:
    numbers = {signer_number(wallet) for wallet in (*WALLETS, "", "W", "Wa")}
    assert len(numbers) == len(WALLETS) + 3
    assert signer_number("Wa00Xyz9 and more") == signer_number("Wa00Xyz9")
