"""The list of all tokens in the memory of an api process, and its stored snapshots.

The list is read over its own database connection, and from final slots only.  If it cannot be read,
reports are still served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import MINUTE_MS
from mintscope.market.follow.tailer import Wait, look_again_soon
from mintscope.market.log import LogTrimmed
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.columns import IN_MEMORY, ListMemory
from mintscope.market.screening.listed import ListedTokens
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    ListReader,
    ListSnapshots,
    SnapshotMark,
)
from mintscope.market.screening.token_list import (
    FORM,
    Head,
    NotASnapshot,
    Restoring,
    TokenList,
    pieces,
)
from mintscope.solana.finality_meter import Behind

LOG = structlog.get_logger(__name__)

# A list of fewer than MINTS_MIN mints is loaded in half a second without a snapshot: a mint with a
# day of candles takes a millisecond.  A snapshot is due after TRADES trades, for which a starting
# process would need about a second, and after EVERY_S: the log covers a quarter of an hour.
MINTS_MIN: Final = 500
TRADES: Final = 100_000
EVERY_S: Final = 300.0
TRIES: Final = 3  # attempts to read a snapshot: a newer one can replace it meanwhile


class ListKeeper:
    """Stores snapshots of the list in this process, unless another process has just stored one."""

    def __init__(
        self, snapshots: ListSnapshots, clock: Clock, *, mints_min: int = MINTS_MIN
    ) -> None:
        """Store snapshots in *snapshots*.

        mints_min   lists with fewer mints are not stored
        """
        self._snapshots = snapshots
        self._clock = clock
        self._mints_min = mints_min
        self._kept_seq = 0  # newest event in the newest known snapshot that can be read
        self._kept_at_s: float | None = None
        self._trade_count = 0  # number of trades after that snapshot
        self._is_writable = True

    def note(self, trade_count: int) -> None:
        """Record that *trade_count* trades were added to the list.

        A snapshot is stored once there are enough of them.
        """
        self._trade_count += trade_count

    def forget(self) -> None:
        """Make a snapshot due at the next `keep`, even if another process has just stored one."""
        self._kept_seq = 0
        self._kept_at_s = None

    async def restore(self, keep: ListMemory = IN_MEMORY) -> tuple[TokenList, Head] | None:
        """Return the list in the newest stored snapshot, with the position from which to continue.

        None if no snapshot is stored, or can be read.  Raises ServiceUnavailable if the store does
        not answer.

        keep   stores the large parts of the list
        """
        for _ in range(TRIES):
            mark = await self._snapshots.newest(FORM)
            if mark is None:
                return None
            try:
                found = await self._read(mark, keep)
            except NotASnapshot as reason:
                LOG.warning("list_snapshot_unreadable", reason=str(reason))
                return None
            if found is not None:
                self._start_over(mark.folded_seq)
                return found
        return None

    async def _read(self, mark: SnapshotMark, keep: ListMemory) -> tuple[TokenList, Head] | None:
        """Return the token list in the stored snapshot *mark*; None if a newer one has replaced it.

        keep   stores the large parts of the list

        Raises NotASnapshot if the snapshot cannot be read, and ServiceUnavailable if the store does
        not answer.
        """
        restoring = Restoring(keep)
        for place in range(mark.piece_count):
            piece = await self._snapshots.piece(mark.number, place)
            if piece is None:
                return None
            await asyncio.to_thread(restoring.add, piece)
        return restoring.whole()

    async def keep(self, tokens: TokenList, tracked_seq: int, facts: FactPlace) -> None:
        """Store a snapshot of *tokens* if one is due, from which a process can start.

        *tokens* must not change during the call.  If the store does not answer, the failure is
        logged, and the next attempt is made when a snapshot is due again.

        tracked_seq   the log event up to which tracked and untracked mints were read
        facts         the position up to which facts of mints were read
        """
        if len(tokens) < self._mints_min or not self._is_due():
            return
        try:
            await self._keep(tokens, tracked_seq, facts)
        except ServiceUnavailable as error:
            if self._is_writable:
                LOG.warning("list_not_kept", error=repr(error.__cause__ or error))
            self._is_writable = False
            self._start_over(self._kept_seq)
        else:
            self._is_writable = True

    async def _keep(self, tokens: TokenList, tracked_seq: int, facts: FactPlace) -> None:
        newest = await self._snapshots.newest(FORM)
        # Another process has stored a newer one; never after `forget`, which sets 0.
        if newest is not None and newest.folded_seq > self._kept_seq > 0:
            self._start_over(newest.folded_seq)
            return
        number = await self._snapshots.begin(self._clock.now())
        if number is not None:
            made = pieces(tokens, tracked_seq, facts)
            count = 0
            while (piece := await asyncio.to_thread(next, made, None)) is not None:
                await self._snapshots.add(number, count, piece)
                count += 1
            await self._snapshots.end(SnapshotMark(number, FORM, tokens.folded.seq, count))
            self._kept_seq = tokens.folded.seq
        self._start_over(self._kept_seq)

    def _is_due(self) -> bool:
        if self._kept_at_s is None or self._trade_count >= TRADES:
            return True
        return self._clock.monotonic_s() - self._kept_at_s >= EVERY_S

    def _start_over(self, kept_seq: int) -> None:
        self._kept_seq = kept_seq
        self._trade_count = 0
        self._kept_at_s = self._clock.monotonic_s()


# About the most mints, trades and facts that are added to the list in one step: a step takes a
# thread some milliseconds, during which nothing else uses the list.
MINTS_PER_READ: Final = 100
TRADES_PER_READ: Final = 250
FACTS_PER_READ: Final = 100
LOST_PER_LOOK: Final = 20  # mints; the store needs some milliseconds for each
# Clocks of machines may differ by this much, so facts from this long before a load are read again.
CLOCKS_APART_MS: Final = 10 * MINUTE_MS
# Facts may be stored this long after they were read from a node, and after facts read later.
STORED_LATE_MS: Final = MINUTE_MS
PAUSE_S: Final = 0.25  # the shortest pause between two updates of the list
NEWS_S: Final = 0.05  # the pause between two checks whether slots were folded
LOOK_COST: Final = 4  # the shortest pause after an update, in multiples of its duration
LIST_LATE_S: Final = 60.0
LOADS_MAX: Final = 3
DUE_EVERY_S: Final = 20.0
LOADING: Final = "The list of tokens is still being loaded; try again shortly."

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class NextFold:
    """Waits until the token list must be updated; call an instance between two updates.

    An update is due when more slots have been folded, and at the latest after *refresh_s* seconds.
    If it takes longer than some seconds until blocks are final, only *refresh_s* counts.
    """

    def __init__(
        self,
        folded: Callable[[], Slot | None],
        finality: Callable[[], Behind | None],
        clock: Clock,
        *,
        refresh_s: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Wait, at each call, until *folded* returns another slot, or for *refresh_s* seconds.

        finality   returns how long it takes until blocks are final; None if it was not measured
        """
        self._folded_to = folded
        self._finality = finality
        self._clock = clock
        self._refresh_s = refresh_s
        self._sleep = sleep
        self._seen: Slot | None = None
        self._looks_since_s = clock.monotonic_s()

    async def __call__(self) -> None:
        """Wait until the token list should be updated; after a slow update, wait longer."""
        begun_s = now_s = self._clock.monotonic_s()
        end_s = begun_s + self._refresh_s
        soonest_s = begun_s + max(PAUSE_S, LOOK_COST * (begun_s - self._looks_since_s))
        while now_s < end_s and not (now_s >= soonest_s and self._has_news()):
            await self._sleep(min(NEWS_S, end_s - now_s))
            now_s = self._clock.monotonic_s()
        self._seen = self._folded_to()
        self._looks_since_s = now_s

    def _has_news(self) -> bool:
        behind = self._finality()
        return behind is not None and behind.is_fast and self._folded_to() != self._seen


class ListCache:
    """The list of all tokens in this process, as of a folded slot; `run` keeps it up to date."""

    def __init__(
        self,
        reader: ListReader,
        clock: Clock,
        *,
        wait: Wait,
        keeper: ListKeeper | None = None,
        keep: ListMemory = IN_MEMORY,
    ) -> None:
        """Read the list from *reader*.

        wait     called to wait between two updates
        keeper   stores snapshots of the list for processes that start, and reads them; None: no
                 snapshots are used
        keep     stores the large parts of the list, in memory or in files
        """
        self._reader = reader
        self._clock = clock
        self._wait = wait
        self._list: TokenList | None = None
        self._listed: ListedTokens | None = None
        self._tracked_seq = 0
        self._facts = FactPlace(UnixMs(0), Mint(""))
        self._described: set[FactPlace] = set()  # of the newest facts, which are read again
        self._keeper = keeper
        self._keep = keep
        self._may_restore = True
        self._is_loading = True  # until the first load ends
        self._read_at_s = clock.monotonic_s()

    async def run(self) -> None:
        """Update the list until cancelled; failures of the store do not end this method."""
        readable = True
        while True:
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001  any failure of any store is tried again
                if readable:
                    LOG.warning("the list of tokens cannot be read", error=repr(error))
                readable = self._is_loading = False
            else:
                if not readable:
                    LOG.info("the list of tokens can be read again")
                readable = True
                self._read_at_s = self._clock.monotonic_s()
                await self.keep()
            await self._wait()

    async def expect_loaded(self) -> None:
        """Raise ServiceUnavailable while the token list is being loaded for the first time.

        If the first attempt has failed, this check passes, because everything else can be served.
        """
        if self._is_loading:
            raise ServiceUnavailable(LOADING)

    async def expect_current(self) -> None:
        """Raise ServiceUnavailable if the list was last updated more than LIST_LATE_S seconds ago.

        This check passes while the list is being loaded for the first time.
        """
        late_s = self._clock.monotonic_s() - self._read_at_s
        if not self._is_loading and late_s > LIST_LATE_S:
            raise ServiceUnavailable(
                f"the list of tokens was last updated {late_s:.0f} s ago: the store does"
                " not answer, or this process has too little processor time"
            )

    @property
    def is_loaded(self) -> bool:
        """Whether the token list has been loaded."""
        return self._listed is not None

    def newest(self) -> ListedTokens:
        """Return the list as last updated.  Raises ServiceUnavailable before it has been loaded."""
        if self._listed is None:
            raise ServiceUnavailable(LOADING)
        return self._listed

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*, such as its name; None if none were read yet.

        Raises TokenNotFound if *mint* is not tracked, and ServiceUnavailable if the store does not
        answer.
        """
        return await self._reader.facts_of(mint)

    async def refresh(self) -> None:
        """Update the list with all swaps, tracked mints and facts stored before this call.

        Only final swaps that are folded are included.  If the log no longer reaches back to the
        list, the next call loads the list again.  Raises ServiceUnavailable if the store does not
        answer.
        """
        try:
            is_new = self._list is None
            tokens = await self._load() if self._list is None else self._list
            is_changed = await self._follow(tokens)
        except LogTrimmed as reason:
            LOG.info("loading the list of tokens again", reason=str(reason))
            self._may_restore = self._list is not None  # False: the snapshot is too old
            if self._keeper is not None and not self._may_restore:
                self._keeper.forget()
            self._list = None
            return
        if is_changed or is_new:
            self._listed = await asyncio.to_thread(tokens.listed)
            self._is_loading = False
        self._keep.release()
        self._list = tokens

    async def keep(self) -> None:
        """Store a snapshot of the list if one is due; failures of the store are only logged."""
        if self._keeper is not None and self._list is not None:
            await self._keeper.keep(self._list, self._tracked_seq, self._facts)

    async def _load(self) -> TokenList:
        """Return the list from the newest snapshot, or else from the data of all mints."""
        begun_s = self._clock.monotonic_s()
        self._described = set()
        tokens = await self._restore()
        source = "snapshot" if tokens is not None else "mints"
        if tokens is None:
            tokens = await self._take_in()
        took_s = round(self._clock.monotonic_s() - begun_s, 3)
        LOG.info("list_loaded", source=source, mints=len(tokens), took_s=took_s)
        return tokens

    async def _restore(self) -> TokenList | None:
        """Return the list that is stored in the newest snapshot, or None if none can be read."""
        if self._keeper is None or not self._may_restore:
            return None
        found = await self._keeper.restore(self._keep)
        if found is None:
            return None
        tokens, head = found
        self._tracked_seq = head.tracked_seq
        read_at_ms = max(0, head.facts.read_at_ms - CLOCKS_APART_MS)
        self._facts = FactPlace(UnixMs(read_at_ms), Mint(""))
        return tokens

    async def _take_in(self) -> TokenList:
        """Return a new list of all tracked mints, read from the store in pages."""
        # Read before the mints: `_follow` reads the mints again that were tracked since then.
        folded, self._tracked_seq = await self._reader.folded()
        self._facts = FactPlace(UnixMs(self._clock.now() - CLOCKS_APART_MS), Mint(""))
        tokens = TokenList(folded, self._keep)
        last = 0
        while True:
            page = await self._reader.mints(last, MINTS_PER_READ)
            if not page.mints:
                return tokens
            # The page is as of *page.folded*, so the list must be as of this event, too.
            await self._apply(tokens, page.folded)
            await asyncio.to_thread(tokens.seed, page)
            last = page.last

    async def _follow(self, tokens: TokenList) -> bool:
        """Update *tokens* with folded slots, tracked mints and facts; return whether it changed."""
        before, (folded, newest) = tokens.folded, await self._reader.folded()
        # Before single mints are read: they are as of this event or of a later one.
        await self._apply(tokens, folded)
        tracked = await self._reader.tracked(self._tracked_seq, newest)
        for first in range(0, len(tracked), MINTS_PER_READ):
            await self._read_again(tokens, tracked[first : first + MINTS_PER_READ])
        self._tracked_seq = newest
        await self._recall(tokens)
        is_described = await self._describe(tokens)
        return bool(tracked) or is_described or tokens.folded != before

    async def _read_again(self, tokens: TokenList, mints: Sequence[Mint]) -> None:
        """Reload *mints* from the store; remove those that are no longer tracked."""
        page = await self._reader.some(mints)
        await self._apply(tokens, page.folded)

        # In a thread, because a screen may hold the lock of the columns for milliseconds.
        def read_again() -> None:
            for mint in mints:
                tokens.drop(mint)
            tokens.seed(page)

        await asyncio.to_thread(read_again)

    async def _recall(self, tokens: TokenList) -> None:
        """Reload some mints of which the list has too few candles to compute their high and low."""
        lost = tokens.lost(LOST_PER_LOOK)
        if lost:
            page = await self._reader.some(lost)
            await self._apply(tokens, page.folded)
            await asyncio.to_thread(tokens.recall, page)

    async def _apply(self, tokens: TokenList, until: FoldedTo) -> None:
        if until.seq < tokens.folded.seq:
            raise LogTrimmed(f"expected at least event {tokens.folded.seq}, was {until.seq}")
        while tokens.folded.seq < until.seq:
            slots = await self._reader.trades(tokens.folded.seq, until.seq, TRADES_PER_READ)
            if not slots:
                raise LogTrimmed(f"expected slots until event {until.seq}, were none")
            await asyncio.to_thread(tokens.apply, slots)
            if self._keeper is not None:
                self._keeper.note(sum(len(slot.trades) for slot in slots))

    async def _describe(self, tokens: TokenList) -> bool:
        """Add new facts of mints from the store to *tokens*; return whether there were any.

        Facts are, for example, the names of mints.
        """
        # The clock of the process that reads facts from a node may be behind or ahead.
        newest_ms = min(self._clock.now(), self._facts.read_at_ms)
        place = FactPlace(UnixMs(max(0, newest_ms - STORED_LATE_MS)), Mint(""))
        described: set[FactPlace] = set()
        is_changed = False
        while found := await self._reader.facts_after(place, FACTS_PER_READ):
            for place, facts in found:
                described.add(place)
                if place not in self._described:
                    tokens.describe(place.mint, facts)
                    is_changed = True
        self._described = described
        self._facts = max(self._facts, place)
        return is_changed


class NotStored(StrEnum):
    """The reason why no snapshot of the token list was stored, in words for the operator."""

    NOTHING_FINAL = "no block of the log is final yet"
    FEW = "so few tokens load as fast without it"
    PRESENT = "the one that is stored is new enough"
    BUSY = "another process stores it"


async def store_list(
    reader: ListReader,
    snapshots: ListSnapshots,
    clock: Clock,
    *,
    mints_min: int = MINTS_MIN,
    again: bool = False,
) -> int | NotStored:
    """Store a snapshot of the token list, from which the next api process can start.

    Returns the number of mints in it, or the reason why none was stored.  Raises ServiceUnavailable
    if the store does not answer.

    mints_min   a shorter list is not stored
    again       whether a snapshot is stored even if the stored one is new enough
    """
    folded, _ = await reader.folded()
    if folded.time is None:
        return NotStored.NOTHING_FINAL
    keeper = ListKeeper(snapshots, clock, mints_min=mints_min)
    lister = ListCache(reader, clock, wait=look_again_soon, keeper=keeper)
    for _ in range(LOADS_MAX):  # the first load ends without a list if its snapshot is too old
        await lister.refresh()
        if lister.is_loaded:
            break
    if again:
        keeper.forget()
    before = await snapshots.newest(FORM)
    await lister.keep()
    after = await snapshots.newest(FORM)
    if after is not None and after != before:
        return len(lister.newest())
    if len(lister.newest()) < mints_min:
        return NotStored.FEW
    return NotStored.PRESENT if before is not None and not again else NotStored.BUSY


async def keep_snapshot(
    snapshots: ListSnapshots,
    store: Callable[[], Awaitable[bool]],
    *,
    mints_min: int = MINTS_MIN,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Until cancelled, store a snapshot of the token list whenever the newest is nearly too old.

    A process that starts from a snapshot needs the log since then, of which old parts are deleted.
    While an api process runs, it stores the snapshots, so this function stores none.

    store       stores a snapshot, and returns whether it did
    mints_min   the least number of tracked mints for which a snapshot is stored
    """
    while True:
        await sleep(DUE_EVERY_S)
        try:
            is_due = await snapshots.is_due(FORM, mints_min)
        except ServiceUnavailable:  # ingest logs failures of its store
            continue
        if is_due and not await store():
            await sleep(EVERY_S)
