"""Makes the simulated market's other transactions: payments, votes, changes of liquidity."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from mintscope.kit.primitives import Slot, UnixS
from mintscope_devchain.addresses import VOTE
from mintscope_devchain.market.listing import DOLLAR
from mintscope_devchain.market.pool import Pool, Token, Venue
from mintscope_devchain.market.world import World
from mintscope_devchain.shapes import pumpswap, spl
from mintscope_devchain.shapes.bytes import u8, u32, u64
from mintscope_devchain.transaction import SIGNATURE_FEE, Invocation, MarketTransaction, Submission

PAID: Final = 0.4
PAID_IN_TOKENS: Final = 0.25
LIQUIDITY: Final = 0.15
LAMPORTS: Final = (5_000, 50_000_000)
DOLLARS: Final = (1_000, 900_000_000)
LIQUIDITY_SHARE: Final = (0.0005, 0.01)
TOWER_SYNC: Final = 14
LOCKOUTS: Final = 31


class Noise:
    """Makes the other transactions of a block: payments, votes and changes of liquidity."""

    def __init__(self, world: World, random: Random, *, has_votes: bool) -> None:
        self._world = world
        self._random = random
        self._voters = world.validators if has_votes else ()
        self._shared_pools = [each for each in world.pools() if each.venue is Venue.PUMP_SWAP]

    def transactions(self, slot: Slot, at: UnixS, bank: bytes) -> Iterator[MarketTransaction]:
        """Apply and yield the votes, payments and liquidity changes of *slot*.

        at     the time of the slot
        bank   the bank hash that the votes contain
        """
        yield from self._votes(slot, at, bank)
        if self._random.random() < PAID:
            yield self._payment()
        if self._random.random() < PAID_IN_TOKENS:
            yield self._token_payment(DOLLAR)
        if self._shared_pools and self._random.random() < LIQUIDITY:
            yield self._liquidity_change(at, self._filled())

    def _votes(self, slot: Slot, at: UnixS, bank: bytes) -> Iterator[MarketTransaction]:
        for voter, account in self._voters:
            if self._world.balances[voter] >= SIGNATURE_FEE:
                cast = partial(_tower_sync, (account, voter), slot, at, bank)
                yield self._send(cast, Submission(voter, version=None))

    def _payment(self) -> MarketTransaction:
        payer, payee = self._random.sample(self._world.wallets, 2)
        lamports = self._random.randrange(*LAMPORTS)
        return self._send(partial(spl.pay, payer, payee, lamports), Submission(payer, version=None))

    def _token_payment(self, token: Token) -> MarketTransaction:
        payer, payee = self._random.sample(self._world.wallets, 2)
        source = self._world.held(payer, token)
        target = self._world.held(payee, token)
        amount = min(self._random.randrange(*DOLLARS), self._world.balances[source])
        return self._send(
            partial(spl.transfer_checked, source, target, amount, payer, token), Submission(payer)
        )

    def _filled(self) -> list[Pool]:
        """Return the PumpSwap pools whose base vault has tokens."""
        return [each for each in self._shared_pools if self._world.balances[each.base_vault]]

    def _liquidity_change(self, at: UnixS, pools: list[Pool]) -> MarketTransaction:
        world = self._world
        pool = self._random.choice(pools)
        owner = self._random.choice(world.providers)
        held = world.lp_account(owner, pool)
        reserves = pool.reserves(world.balances)
        share = self._random.uniform(*LIQUIDITY_SHARE)
        if world.balances[held]:
            share = min(share, world.balances[held] / reserves.base)
        base = int(reserves.base * share)
        quote = int(reserves.quote * share)
        held_base = world.held(owner, pool.base)
        held_quote = world.held(owner, pool.quote)
        adds = world.balances[held] == 0
        if adds and (base > world.balances[held_base] or quote > world.balances[held_quote]):
            return self._payment()
        amounts = (base, quote, world.balances[held] or base)
        change = pumpswap.LiquidityChange(
            pool, owner, (held_base, held_quote, held), amounts, reserves, at, adds
        )
        return self._send(partial(pumpswap.change_liquidity, change), Submission(owner))

    def _send(self, build: Callable[[], Invocation], envelope: Submission) -> MarketTransaction:
        """Apply and return a transaction with one instruction, which *build* returns."""
        return self._world.transact(partial(_alone, build), envelope)


def _tower_sync(accounts: tuple[str, str], slot: Slot, at: UnixS, bank: bytes) -> Invocation:
    """Return a vote for the slots up to *slot*.

    bank   the hash of 32 bytes in the vote, as the bank hash and as the block id
    """
    tower = b"".join(u8(1, LOCKOUTS - number) for number in range(LOCKOUTS))
    voted = u32(TOWER_SYNC) + u64(slot - LOCKOUTS) + u8(LOCKOUTS) + tower
    return Invocation(VOTE, accounts, voted + bank + u8(1) + u64(at) + bank)


def _alone(build: Callable[[], Invocation]) -> tuple[Invocation]:
    return (build(),)
