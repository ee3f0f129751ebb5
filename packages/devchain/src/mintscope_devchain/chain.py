"""A devchain: blocks in memory, in which a simulated market trades.

The history is created at the start and rendered on demand: a block an hour, then every 15, 5 and 1
minutes up to the present.  With the default of 10 days, m1, m5, m15 and h1 thus have at least 200
candles.  After the history, blocks are one slot apart, unless leaders skip slots.

Memory   the number of blocks is bounded by *kept_blocks*; rendered blocks are not stored
Market   depends only on the arguments of Devchain and on the later calls
"""

from collections.abc import Iterator
from functools import partial
from hashlib import sha512
from random import Random
from typing import Final

import msgspec
from solders.hash import Hash
from starlette.applications import Starlette

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Signature, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope_devchain.addresses import address, text
from mintscope_devchain.blockstore import FINALITY_MS, SLOT_MS, Blockstore, ChainBlock, slot_pace
from mintscope_devchain.market.accounts import account, token_accounts
from mintscope_devchain.market.listing import SOL
from mintscope_devchain.market.pool import Token
from mintscope_devchain.market.traffic import Traffic
from mintscope_devchain.market.world import World
from mintscope_devchain.methods.blocks import head
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.render import Named, render
from mintscope_devchain.server import answering
from mintscope_devchain.svm.vm import Closed, Vm
from mintscope_devchain.transaction import Json

HISTORY: Final = ((205 * 60, 60), (17 * HOUR_S, 300), (51 * HOUR_S, 900))
"""(age, step) in seconds: up to *age*, blocks are *step* apart; older blocks are an hour apart."""
HISTORY_DAYS_MAX: Final = 90
MINTS_MAX: Final = 1_000
FIRST_SLOT: Final = 380_000_000
FIRST_HEIGHT: Final = 358_000_000
SKIPPED: Final = 0.03  # the probability, at each block, that a leader skips slots before it
LEADER_SLOTS: Final = 4
KEPT_BLOCKS: Final = 10_000


class Devchain:
    """A Solana chain with a simulated market, in memory; call `tick` for its next block.

    now                    the time of the newest block of the history, Unix milliseconds
    mints                  the number of tokens of the market, without SOL, USDC and those of STORY
    kept_blocks            the number of newest blocks to store; older blocks may be dropped
    slot_ms, finality_ms   the duration of a slot, and the time from a block until it is final
    has_votes              whether blocks contain votes; None: they do unless the pace is that of
                           Alpenglow
    has_story              whether the market also has the tokens of STORY, which launch, leave
                           their curve or imitate others; about as much is then traded in a minute
                           after the history as in a minute of the history
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing that can be set
        self,
        *,
        seed: int = 0,
        now: UnixMs,
        mints: int = 20,
        history_days: float = 10,
        kept_blocks: int = KEPT_BLOCKS,
        slot_ms: int = SLOT_MS,
        finality_ms: int = FINALITY_MS,
        has_votes: bool | None = None,
        has_story: bool = False,
    ) -> None:
        assert 0 <= history_days <= HISTORY_DAYS_MAX
        assert 1 <= mints <= MINTS_MAX
        self.seed = seed
        self.genesis_hash = address(seed, now, "genesis")
        self._random = Random(seed)  # noqa: S311  # a market, not a secret
        self._now = now
        self.world = World(seed=seed, mints=mints, has_story=has_story)
        pace = slot_pace(slot_ms, finality_ms)
        self._slot_ms = slot_ms
        self.blockstore = Blockstore(kept_blocks, pace)
        # This clock does not advance: until another clock is set, a sent transaction is due in the
        # next block.
        self.vm = Vm(
            clock=ManualClock(now),
            seed=seed,
            pace=pace,
            reached=self.blockstore.reached,
            elsewhere=partial(account, self.world),
            held_elsewhere=partial(token_accounts, self.world),
        )
        opens = UnixS(now // 1_000)
        has_votes = not pace.is_alpenglow if has_votes is None else has_votes
        self._traffic = Traffic(
            self.world, self._random, opens=opens, has_votes=has_votes, is_even=has_story
        )
        self._make_history(opens, history_days)
        self.opened_slot: int = self.blockstore.tip

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the market except USDC, SOL first."""
        return (SOL, *(listed.token for listed in self.world.listed))

    @property
    def app(self) -> Starlette:
        """The ASGI application that serves the chain's JSON-RPC methods over HTTP."""
        return answering(Methods(self.vm, self), self.vm.faults)

    def tick(self, now: UnixMs | None = None) -> Slot:
        """Make the next block and return its slot; leaders may skip slots before it.

        If a reorg is due, a fork first replaces the newest blocks.

        now   the time of the block; the time of the last block if *now* is earlier.  None: the time
              of the last block plus the duration of its slots
        """
        depth = self.vm.fork_depth()
        if depth:
            self.fork(depth)
        slots = 1
        while self._random.random() < SKIPPED:
            slots += self._random.randint(1, LEADER_SLOTS)
        self._now = (
            UnixMs(self._now + slots * self._slot_ms) if now is None else max(self._now, now)
        )
        return self._append(Slot(self.blockstore.tip + slots), self._now)

    def fork(self, depth: int) -> None:
        """Replace the newest *depth* blocks with as many others, in later slots.

        Raises ValueError if one of these blocks is final, or *depth* is less than 1.
        """
        if not 0 < depth <= self.blockstore.unfinalized():
            raise ValueError(
                f"expected a depth of 1 to {self.blockstore.unfinalized()}"
                f" blocks that are not final; was {depth}"
            )
        for block in self.blockstore.drop(depth):
            self.world.undo(reversed(block.transactions))
        self.vm.rewind(depth)
        for _ in range(depth):
            self.tick()

    def entries(self, block: ChainBlock) -> list[Json]:
        """Return the transactions of *block* as the RPC method getBlock returns them."""
        landed = (each.entry for each in self.vm.held(block.slot))
        return [*(self._rendered(block, at) for at in range(len(block.transactions))), *landed]

    def entry(self, block: ChainBlock, at: int) -> Json:
        """Return the transaction at index *at* of *block* as the RPC method getBlock returns it."""
        made = len(block.transactions)
        if at >= made:
            return self.vm.held(block.slot)[at - made].entry
        return self._rendered(block, at)

    def named(self, block: ChainBlock) -> list[Named]:
        """Return the market transactions of *block* as `Named`, which can test for accounts."""
        return [Named(each, self.world) for each in block.transactions]

    def _rendered(self, block: ChainBlock, at: int) -> Json:
        signature = _signature(block, at)
        return render(block.transactions[at], signature, block.parent_blockhash, self.world)

    def signatures(self, block: ChainBlock) -> list[Signature]:
        """Return the signatures of the transactions of *block*, in their order in the block."""
        landed = (Signature(each.signature) for each in self.vm.held(block.slot))
        return [*_signatures(block), *landed]

    def _make_history(self, opens: UnixS, days: float) -> None:
        times = sorted(_history(opens, days))
        start = FIRST_SLOT + int((times[0] - opens) * 1_000 / self._slot_ms)
        for at in times:
            slot = start + (at - times[0]) * 1_000 // self._slot_ms
            self._append(Slot(slot), UnixMs(at * 1_000))

    def _append(self, slot: Slot, at_ms: UnixMs) -> Slot:
        blockstore = self.blockstore
        at = UnixS(at_ms // 1_000)
        if blockstore.slots:
            parent = blockstore.last
            parent_slot = parent.slot
            height = parent.height + 1
            parent_hash = parent.blockhash
            # Block times are whole seconds, so several blocks have the same time.
            after_s = max(at - parent.time, self._slot_ms / 1_000)
        else:
            parent_slot = Slot(slot - 1)
            height = FIRST_HEIGHT
            parent_hash = address(self.seed, "before the first")
            after_s = 0.0
        blockstore.append(
            ChainBlock(
                slot=slot,
                parent_slot=parent_slot,
                height=height,
                time=at,
                blockhash=address(parent_hash, slot, self._random.getrandbits(64)),
                parent_blockhash=parent_hash,
                transactions=self._traffic.block(slot, at, parent_hash, after_s),
            )
        )
        self.vm.close_block(
            Closed(slot, height, Hash.from_string(blockstore.last.blockhash), at_ms)
        )
        return slot


def lines(chain: Devchain, blocks: int, *, after: int = 0) -> Iterator[bytes]:
    """Yield *blocks* blocks of *chain* as lines of JSON, oldest first.

    If the chain has fewer blocks, the missing ones are made.

    after   the number of the oldest of these blocks to leave out; the chain must have them
    """
    blockstore = chain.blockstore
    # Copied now, because `tick` may drop the oldest blocks.
    made = list(blockstore.slots[:blocks])
    for number in range(after, blocks):
        block = blockstore.block(made[number] if number < len(made) else chain.tick())
        assert block is not None
        shown = {"slot": block.slot} | head(block) | {"transactions": chain.entries(block)}
        yield msgspec.json.encode(shown) + b"\n"


def _history(opens: UnixS, days: float) -> set[UnixS]:
    """Return the block times of the history: from *days* days before *opens* until *opens*."""
    times = {opens}
    span = int(days * DAY_S)
    reached = 0
    for until, step in (*HISTORY, (span, HOUR_S)):
        times |= {UnixS(opens - age) for age in range(reached, min(until, span) + 1, step)}
        reached = until
    return times


def _signatures(block: ChainBlock) -> Iterator[Signature]:
    """Yield the signatures of the transactions that the simulated market has in *block*."""
    return (_signature(block, at) for at in range(len(block.transactions)))


def _signature(block: ChainBlock, at: int) -> Signature:
    return Signature(text(sha512(f"{block.blockhash}/{at}".encode()).digest()))
