"""The market with a story: even volume, launches, a graduation, imitations, a dead token."""

from collections import Counter
from functools import cache

import msgspec
from solders.pubkey import Pubkey

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Mint, Slot
from mintscope.solana.blocks import LAMPORTS_PER_SOL, USDC, WSOL
from mintscope_devchain.addresses import METAPLEX
from mintscope_devchain.chain import Devchain
from mintscope_devchain.market.accounts import account
from mintscope_devchain.market.pool import Venue
from support.oracles.devchain_blocks import NOW
from support.oracles.intended_swaps import intended
from support.scenes.json_transactions import decode_block

MINUTES = 4


@cache
def story() -> Devchain:
    """Return a market with a history of 0.2 days that has been live for MINUTES."""
    chain = Devchain(now=NOW, history_days=0.2, has_story=True)
    while chain._now < NOW + MINUTES * 60_000:  # noqa: SLF001 - the clock of the chain
        chain.tick()
    return chain


def mint_of(chain: Devchain, symbol: str) -> Mint:
    return next(each.mint for each in chain.tokens if each.symbol == symbol)


def named(chain: Devchain, mint: Mint) -> bytes:
    """Return the data of the Metaplex account of *mint*, which has its name."""
    key, program = Pubkey.from_string(mint), Pubkey.from_string(METAPLEX)
    place, _ = Pubkey.find_program_address([b"metadata", bytes(program), bytes(key)], program)
    found = account(chain.world, place)
    assert found is not None
    return bytes(found.data)


def blocks(chain: Devchain, since_s: int, until_s: int) -> list[Slot]:
    """Return the slots from *since_s* (excluded) to *until_s*, in seconds since launch."""
    found = []
    for slot in chain.blockstore.slots:
        block = chain.blockstore.block(slot)
        assert block is not None
        if since_s < block.time - NOW // 1_000 <= until_s:
            found.append(slot)
    return found


@cache  # several tests read the swaps of the same slots
def meant(slot: Slot) -> tuple[Swap, ...]:
    """Return the swaps that the scripted devchain was meant to make in *slot*, in order."""
    return intended(story(), slot)


def volumes(slots: list[Slot]) -> Counter[Mint]:
    """Return the amount of each token of `story` that was traded in *slots*, in raw units."""
    traded: Counter[Mint] = Counter()
    for slot in slots:
        for swap in meant(slot):
            traded[swap.in_mint] += swap.in_amount
            traded[swap.out_mint] += swap.out_amount
    return traded


def test_live_volume_per_minute_is_similar_to_that_of_the_history() -> None:
    chain = story()
    before = volumes(blocks(chain, -3_600, 0))
    now = volumes(blocks(chain, 0, MINUTES * 60))
    busy = [WSOL, *(mint_of(chain, each) for each in ("BONE", "WHIF", "MOON", "LEAF", "STAR"))]
    for mint in busy:
        ratio = (now[Mint(mint)] / MINUTES) / (before[Mint(mint)] / 60)
        assert 0.25 < ratio < 4.5, (mint, ratio)
    for slot in blocks(chain, 0, MINUTES * 60):
        of_sol = [s for s in meant(slot) if {s.in_mint, s.out_mint} == {WSOL, USDC}]
        assert max(max(s.in_amount, s.out_amount) for s in of_sol) > LAMPORTS_PER_SOL // 20


def test_a_graduated_token_moves_to_pumpswap_at_the_price_of_its_curve() -> None:
    chain = story()
    mint = mint_of(chain, "GRAD")
    venues: list[str] = []
    prices: list[float] = []
    for slot in blocks(chain, 0, MINUTES * 60):
        block = chain.blockstore.block(slot)
        assert block is not None
        entries = [msgspec.Raw(msgspec.json.encode(each)) for each in chain.entries(block)]
        decoded = decode_block(entries)
        found = [each._replace(in_left=None, out_left=None) for each in decoded.swaps]
        assert found == list(meant(slot))
        assert not decoded.quarantined
        for swap in found:
            if mint in (swap.in_mint, swap.out_mint):
                is_buy = swap.out_mint == mint
                sol, tokens = (
                    (swap.in_amount, swap.out_amount)
                    if is_buy
                    else (swap.out_amount, swap.in_amount)
                )
                venues.append(swap.program)
                prices.append(sol / tokens)
    moved = venues.index(Venue.PUMP_SWAP)
    assert set(venues[:moved]) == {Venue.PUMP_FUN}
    assert set(venues[moved:]) == {Venue.PUMP_SWAP}
    assert 0.9 < prices[moved] / prices[moved - 1] < 1.1


def test_the_story_has_a_launch_a_dead_token_and_two_copied_names() -> None:
    chain = story()
    launched = mint_of(chain, "NEW1")
    assert volumes(blocks(chain, -7_200, 119))[launched] == 0
    assert volumes(blocks(chain, 119, 180))[launched] > 0
    assert volumes(blocks(chain, -7_200, 240))[mint_of(chain, "NEW2")] == 0
    assert volumes(blocks(chain, -7_200, MINUTES * 60))[mint_of(chain, "GONE")] == 0
    shown = {each.symbol: named(chain, each.mint) for each in chain.tokens}
    looks_like_bone = "B\N{CYRILLIC CAPITAL LETTER O}NE".encode()
    assert len(looks_like_bone).to_bytes(4, "little") + looks_like_bone in shown["TWIN"]
    assert b"MOON" in shown["SAME"]
    assert len({each.mint for each in chain.tokens}) == len(chain.tokens)
