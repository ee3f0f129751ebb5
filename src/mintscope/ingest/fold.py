"""Folds final slots into candles, in slot order, each slot exactly once."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice, takewhile
from typing import Final, TypeAlias

from mintscope.kit.clock import Clock
from mintscope.kit.metrics import FINALIZED_SLOT, TRACKED_MINTS
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market import ports
from mintscope.market.engine.crowd_book import CrowdBook
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.pool_book import PoolBook
from mintscope.market.log import PricedSwap
from mintscope.market.series.store import with_details
from mintscope.market.store.fold import SqlFolding
from mintscope.market.store.log_writer import SqlMarketStore
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace

SLOTS_MIN: Final = 25  # slots to wait for, so that a mint with several swaps is written only once
SLOTS_MAX: Final = 100
WAIT_S: Final = 10.0
FAST_WAIT: Final = 0.5  # the pause as a share of the delay of finality, if the delay is short
COST_SHARE: Final = 0.2  # largest share of the time that small batches may take
STEP_S: Final = 0.02  # seconds of folding after each append
LATE_SHARE: Final = 0.75  # the step if almost SLOTS_MAX slots wait, as a share of a slot's duration
LATE_STEP_S: Final = 0.1  # the same step if the duration of a slot is unknown
BEHIND_STEP_S: Final = 1.0  # the step if SLOTS_MAX slots wait: then appends wait for the fold
PACKED_MAX: Final = 500  # mints that are encoded in one step
MINTS_MAX: Final = 1_500  # mints in a batch, which then takes about 100 ms to write
LATE_BATCH: Final = 4  # factor of MINTS_MAX if SLOTS_MAX slots wait: mints are written less often
COUNT_S: Final = 10.0  # seconds between two counts of the tracked mints; a count takes milliseconds


MeasuredFinality: TypeAlias = Callable[[], Behind | None]


def not_measured() -> None:
    """Return None, because the finality of this source is not measured."""


@dataclass(eq=False, repr=False)
class FinalFold:
    """Folds batches of final slots, for a limited time after each append to the log."""

    store: SqlMarketStore
    floor: ports.Floor | None  # every mint that reaches it is tracked; None: only listed mints
    clock: Clock
    _: KW_ONLY
    mints_max: int = MINTS_MAX  # a batch ends with the slot in which it reaches this number
    pace: Callable[[], Pace | None] = lambda: None  # of the chain, None if it is unknown
    finality: MeasuredFinality = not_measured  # if it takes only seconds, pauses depend on it

    def __post_init__(self) -> None:
        self._under_way: _Batch | None = None
        self._waiting = 0
        self._begun_s = self.clock.monotonic_s()
        self._took_s = 0.0
        self._counted_s: float | None = None

    @property
    def hurries(self) -> bool:
        """Whether a batch is under way, and blocks become final so fast that it must hurry."""
        behind = self.finality()
        return self._under_way is not None and behind is not None and behind.is_fast

    async def go_on(self) -> None:
        """Fold final slots for about 20 ms, or longer if so many wait that the fold is late."""
        now_s = self.clock.monotonic_s()
        end_s = now_s + self._step_s()
        while now_s < end_s:
            if self._under_way is None:
                if not await self._begin():
                    return
                self._took_s = 0.0
            await self._step()
            before_s = now_s
            now_s = self.clock.monotonic_s()
            self._took_s += now_s - before_s
            if self._under_way is not None and self._under_way.is_packed and not self._is_behind:
                return  # the write takes a step of its own

    @property
    def _is_behind(self) -> bool:
        return self._waiting >= SLOTS_MAX

    @property
    def _late(self) -> float:
        """The lateness of the fold: 0 if at most 2 * SLOTS_MIN slots wait, 1 if SLOTS_MAX wait."""
        return max(0, self._waiting - 2 * SLOTS_MIN) / (SLOTS_MAX - 2 * SLOTS_MIN)

    def _step_s(self) -> float:
        if self._is_behind:
            return BEHIND_STEP_S
        pace = self.pace()
        late_step_s = LATE_STEP_S if pace is None else LATE_SHARE * pace.slot_s
        return STEP_S + self._late * max(0.0, late_step_s - STEP_S)

    def _wait_s(self) -> float:
        """Return the seconds from batch to batch while fewer than SLOTS_MIN slots wait."""
        behind = self.finality()
        if behind is None or not behind.is_fast:
            return WAIT_S
        return min(max(FAST_WAIT * behind.seconds, self._took_s / COST_SHARE), WAIT_S)

    async def finish(self) -> None:
        """Fold all final slots."""
        while self._under_way is not None:
            await self._step()
        most = self.mints_max * LATE_BATCH  # without a limit, a batch may have too many mints
        while await fold_once(self.store, self.floor, most):
            pass
        await self._count()

    async def _count(self) -> None:
        TRACKED_MINTS.set(await self.store.tracked_count())
        self._counted_s = self.clock.monotonic_s()

    async def _begin(self) -> bool:
        folding, now_s = await self.store.fold(SLOTS_MAX), self.clock.monotonic_s()
        waiting = self._waiting = len(folding.slots)
        if not waiting or (waiting < SLOTS_MIN and now_s - self._begun_s < self._wait_s()):
            return False
        mints_max = round(self.mints_max * (1 + self._late * (LATE_BATCH - 1)))
        self._begun_s = now_s
        self._under_way = await _Batch.begin(folding, self.floor, mints_max)
        return True

    async def _step(self) -> None:
        batch, self._under_way = self._under_way, None  # if a step fails, the batch starts again
        if batch is None:
            return
        if await batch.step():
            self._under_way = batch
            return
        now_s = self.clock.monotonic_s()
        if self._counted_s is None or now_s - self._counted_s >= COUNT_S:
            await self._count()


async def fold_once(
    store: SqlMarketStore, floor: ports.Floor | None, mints_max: int | None = None
) -> bool:
    """Fold one batch of final slots; return False if no final slot waits.

    floor       volume and trades at which a mint becomes tracked; None: only listed mints are
                tracked
    mints_max   mints of one batch at most; None: no limit
    """
    folding = await store.fold(SLOTS_MIN)
    if not folding.slots:
        return False
    batch = await _Batch.begin(folding, floor, mints_max)
    while await batch.step():
        pass
    return True


class _Touched:
    """The state of a mint that has swaps in the batch.

    last_swap   the time of the newest of these swaps
    """

    __slots__ = ("crowd", "fold", "last_swap", "pools")

    def __init__(self, kept: ports.Kept) -> None:
        self.fold = MintFold.from_state(kept.state, kept.in_sol)
        self.pools = PoolBook(kept.pools)
        self.crowd = CrowdBook(kept.traders)
        self.last_swap = UnixS(0)


@dataclass(eq=False, repr=False)
class _Batch:
    """A fold of some final slots of one day, in steps.

    Other tasks may change the store between two steps.
    """

    folding: SqlFolding
    slots: Sequence[ports.FinalizedSlot]
    untracked: Sequence[Mint]
    floor: ports.Floor | None
    mints_max: int | None

    def __post_init__(self) -> None:
        self._applied = 0
        self._touched: dict[Mint, _Touched] = {}
        self._tracked: dict[Mint, ports.FinalizedSlot] = {}
        self._kept: dict[Mint, ports.Kept] = {}
        self._activity: dict[Mint, ports.Activity | None] = {}
        self._packed: dict[Mint, ports.FoldedMint] = {}

    @classmethod
    async def begin(
        cls, folding: SqlFolding, floor: ports.Floor | None, mints_max: int | None = None
    ) -> "_Batch":
        """Begin a batch of the waiting slots that are on the same day as the first one.

        On a new day, mints that have not reached *floor* for `dead_after_days` days are untracked
        in the same batch; none if *floor* is None.
        """
        today = ports.day_of(folding.slots[0].time)
        slots = list(takewhile(lambda slot: ports.day_of(slot.time) == today, folding.slots))
        untracked: list[Mint] = []
        if floor is not None and folding.day != today:
            followed = await folding.followed()
            untracked = [
                m for m, was in followed.items() if ports.is_dead(was, today=today, floor=floor)
            ]
        return cls(folding, slots, untracked, floor, mints_max)

    @property
    def is_packed(self) -> bool:
        """Whether the rows of all mints are encoded, so that only the write remains."""
        return self._applied == len(self.slots) and len(self._packed) == len(self._touched)

    async def step(self) -> bool:
        """Fold a slot, encode some mints, or write the batch; return False after the write.

        Nothing is written if a mint was tracked or untracked since the batch was read; the slots of
        the batch are then folded again.
        """
        if self._applied < len(self.slots):
            await self._apply(self.slots[self._applied])
            self._applied += 1
            if self.mints_max is not None and len(self._touched) >= self.mints_max:
                # The remaining slots are read again for the next batch.
                self.slots = self.slots[: self._applied]
            return True
        if not self.is_packed:
            done = len(self._packed)
            self._pack(list(islice(self._touched.items(), done, done + PACKED_MAX)))
            return True
        if await self.folding.save(self._folded()):
            FINALIZED_SLOT.set(self.slots[-1].slot)
        return False

    async def _apply(self, slot: ports.FinalizedSlot) -> None:
        swaps_of = await self.folding.swaps(slot)
        await self._load([mint for mint in swaps_of if mint not in self._kept])
        unnamed: list[Mint] = []
        for mint, swaps in swaps_of.items():
            if self.floor is not None:
                self._count(mint, slot, swaps, self.floor)
            since = self._kept[mint].since_slot
            if mint not in self._tracked and (since is None or slot.slot <= since):
                continue
            touched = self._touched.get(mint)
            if touched is None:
                touched = self._touched[mint] = _Touched(self._kept[mint])
            fold = touched.fold
            for swap in swaps:
                fold.apply(slot.time, swap)
            touched.pools.apply(slot.slot, slot.time, swaps)
            touched.crowd.apply(slot.time, swaps)
            touched.last_swap = slot.time
            # Details take time to read, and only pools whose program is unknown need them.
            if touched.pools.unnamed:
                unnamed.append(mint)
        if unnamed:
            details = await self.folding.details(slot, unnamed)
            for mint in unnamed:
                self._touched[mint].pools.name(with_details(swaps_of[mint], details.get(mint)))

    def _pack(self, some: Sequence[tuple[Mint, "_Touched"]]) -> None:
        for mint, touched in some:
            fold = touched.fold
            changed = fold.changed()
            waypoints = fold.waypoints()
            self._packed[mint] = ports.FoldedMint(
                fold.state(),
                fold.in_sol(),
                changed,
                waypoints,
                fold.opened(),
                touched.last_swap,
                touched.pools.changed(),
                touched.crowd.changed(),
            )

    def _folded(self) -> ports.Folded:
        return ports.Folded(
            checkpoint=self.slots[-1],
            untracked=self.untracked,
            tracked=self._tracked,
            activity={mint: was for mint, was in self._activity.items() if was is not None},
            mints=self._packed,
        )

    async def _load(self, mints: Sequence[Mint]) -> None:
        kept = await self.folding.kept(mints)
        for mint in kept.keys() & set(self.untracked):
            # This batch untracks the mint, so its old state must not continue.
            kept[mint] = ports.Kept(None, kept[mint].is_removed, None, None, kept[mint].activity)
        self._kept |= kept
        self._activity |= {mint: was.activity for mint, was in kept.items()}

    def _count(
        self, mint: Mint, slot: ports.FinalizedSlot, swaps: Sequence[PricedSwap], floor: ports.Floor
    ) -> None:
        """Count the swaps of *mint*, and track it from the slot in which it reaches *floor*."""
        activity: ports.Activity = ports.count(
            self._activity[mint],
            day=ports.day_of(slot.time),
            swaps=len(swaps),
            volume=sum(swap.volume for swap in swaps),
            floor=floor,
        )
        self._activity[mint] = activity
        kept = self._kept[mint]
        is_tracked = kept.since_slot is not None or mint in self._tracked
        if ports.is_lively(activity) and not is_tracked and not kept.is_removed:
            self._tracked[mint] = slot
