"""The reports of chosen mints at every event of the swap log, whenever the looking began.

A report is a function of the log up to an event.  To rebuild it after a restart, a mint is begun
from what was once loaded of it (its base), and the events since are applied once more.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from mintscope.base.errors import InsufficientData
from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.time import MINUTE_S
from mintscope.core.market.basis.price_basis import basis_of
from mintscope.core.market.engine.engine import Engine, as_trades
from mintscope.core.market.log import (
    Appended,
    Event,
    LoadedMint,
    LogTrimmed,
    PricedSwap,
    Retracted,
    Untracked,
)
from mintscope.core.market.report import TokenReport, token_report


@dataclass(slots=True)
class _Since:
    """The swaps of a mint in one slot, and its pools after it, None if they did not change."""

    slot: Slot
    time: UnixS
    swaps: list[PricedSwap]
    standing: bytes | None


@dataclass(slots=True)
class _Track:
    """One mint: its row in the engine, its base, and what came after that.

    is_kept   the base was written down as it is
    """

    row: int
    base: LoadedMint
    since: list[_Since] = field(default_factory=list)
    is_kept: bool = False

    @property
    def standing(self) -> bytes | None:
        """The pools of the mint as of its newest slot, packed; None if the log names none."""
        newer = (each.standing for each in reversed(self.since) if each.standing is not None)
        kept = self.base.standings
        return next(newer, kept[-1][1] if kept else None)


class Tracks:
    """At most *capacity* mints, each as of the last event applied.

    seq    every event up to it has been applied
    slot   the newest that lives, and time, its time; as far as events named them
    """

    def __init__(self, capacity: int) -> None:
        self._engine = Engine(capacity)
        self._capacity = capacity
        self._tracks: dict[Mint, _Track] = {}
        self._ahead: dict[Mint, LoadedMint] = {}
        self.begin(0, None, None)

    def begin(self, seq: int, slot: Slot | None, time: UnixS | None) -> None:
        """Forget everything and go on after event *seq*."""
        self._tracks.clear()
        self._ahead.clear()
        self._free = list(range(self._capacity))
        self.seq = seq
        self.slot = slot
        self.time = time

    def __contains__(self, mint: Mint) -> bool:
        return mint in self._tracks

    def has(self, mint: Mint) -> bool:
        """Say whether *mint* was taken: it is there, or will be at an event to come."""
        return mint in self._tracks or mint in self._ahead

    def take(self, loaded: LoadedMint) -> list[Mint] | None:
        """Take a mint, from the event on that it was loaded at; return it if it begins now.

        None if that event is past.  Of a mint that is there already, this becomes the base.
        """
        if loaded.seq < self.seq:
            return None
        self._ahead[loaded.mint] = loaded
        return self._reach()

    def drop(self, mint: Mint) -> None:
        """Forget *mint*."""
        self._ahead.pop(mint, None)
        track = self._tracks.pop(mint, None)
        if track is not None:
            self._free.append(track.row)

    def apply(self, event: Event) -> tuple[list[Mint], list[Mint]]:
        """Apply *event*, the next one; return which mints it begins, and which have traded in it.

        Raises LogTrimmed when an event before it is missing.
        """
        if event.seq != self.seq + 1:
            raise LogTrimmed(f"expected event {self.seq + 1}, was {event.seq}")
        traded: list[Mint] = []
        match event:
            case Appended(header=header):
                self.slot = header.slot
                self.time = header.time
                traded = self._append(event)
            case Retracted(slot=slot, mints=mints):
                for mint in mints:
                    self._retract(mint, slot)
            case Untracked(mint=mint):
                self.drop(mint)
            case _:
                pass
        self.seq = event.seq
        return self._reach(), traded

    def ends_minute(self, event: Event) -> bool:
        """Say whether *event*, the next one, is the first slot of another minute.

        If it is, reports are as of its time from now on: of closed candles they have the minute
        that has ended, and nothing of the one that begins.
        """
        if not isinstance(event, Appended) or self.time is None:
            return False
        header = event.header
        if header.time // MINUTE_S <= self.time // MINUTE_S:
            return False
        self.slot = header.slot
        self.time = header.time
        return True

    def report(self, mint: Mint, *, is_closed: bool = False) -> TokenReport | None:
        """Return the report of *mint*, which is there; None if there is too little to report.

        is_closed   its indicators are without the candles that are open
        """
        if self.time is None:
            return None
        try:
            track = self._tracks[mint]
            values = self._engine.snapshot(track.row, self.time, leaves_out_open=is_closed)
            return token_report(mint, values, self.time, basis=basis_of(track.standing))
        except InsufficientData:
            return None

    def has_traded(self, mint: Mint) -> bool:
        """Return whether *mint* has changed since its base."""
        return bool(self._tracks[mint].since)

    def new_bases(self) -> list[LoadedMint]:
        """Return the bases that were not written down yet."""
        return [track.base for track in self._tracks.values() if not track.is_kept]

    def idle(self) -> list[Mint]:
        """Return the mints that have not changed since their bases: these may be as of now."""
        return [mint for mint, track in self._tracks.items() if not track.since]

    def keep(self, bases: Iterable[LoadedMint], idle: Iterable[Mint], seq: int) -> None:
        """Note that *bases* were written down, and those of *idle* as of *seq*."""
        for base in bases:
            track = self._tracks.get(base.mint)
            if track is not None and track.base is base:
                track.is_kept = True
        for mint in idle:
            track = self._tracks.get(mint)
            if track is not None and not track.since:
                track.base = msgspec.structs.replace(track.base, seq=seq)

    def _reach(self) -> list[Mint]:
        """Begin the mints that were loaded at this event."""
        begun = []
        for mint, loaded in list(self._ahead.items()):
            if loaded.seq > self.seq:
                continue
            del self._ahead[mint]
            track = self._tracks.get(mint)
            if track is None:
                if not self._free:
                    continue
                self._tracks[mint] = track = _Track(self._free.pop(), loaded)
                self._engine.load(track.row, loaded)
                begun.append(mint)
            else:
                track.base = loaded
                track.since = []
                track.is_kept = False
        return begun

    def _append(self, event: Appended) -> list[Mint]:
        found: dict[Mint, _Since] = {}
        for swap in event.swaps:
            if swap.mint in self._tracks:
                header = event.header
                since = found.get(swap.mint)
                if since is None:
                    standing = event.standings.get(swap.mint)
                    since = found[swap.mint] = _Since(header.slot, header.time, [], standing)
                since.swaps.append(swap)
        for mint, since in found.items():
            self._tracks[mint].since.append(since)
        self._trade([(self._tracks[mint].row, since) for mint, since in found.items()])
        return list(found)

    def _trade(self, rows: list[tuple[int, _Since]]) -> None:
        trades = [(row, since.time, swap) for row, since in rows for swap in since.swaps]
        if trades:
            self._engine.apply(as_trades(trades))

    def _retract(self, mint: Mint, slot: Slot) -> None:
        """Make *mint* again without the swaps of *slot*."""
        track = self._tracks.get(mint)
        if track is None:
            return
        track.since = [since for since in track.since if since.slot != slot]
        track.base = _without(track.base, slot)
        track.is_kept = False
        self._engine.load(track.row, track.base)
        self._trade([(track.row, since) for since in track.since])


def _without(loaded: LoadedMint, slot: Slot) -> LoadedMint:
    """Return *loaded* as it is without the swaps of *slot*, which is not final."""
    tail = [kept for kept in loaded.tail if kept.folded or kept.slot != slot]
    standings = [kept for kept in loaded.standings if kept[0] != slot]
    return msgspec.structs.replace(loaded, tail=tail, standings=standings)


def pack(loaded: LoadedMint) -> bytes:
    """Return *loaded* as bytes."""
    return zlib.compress(msgspec.msgpack.encode(loaded), level=1)


def unpack(packed: bytes) -> LoadedMint:
    """Return what `pack` was given.  Raises ValueError for what an earlier version has packed."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(packed), type=LoadedMint)
    except (zlib.error, msgspec.MsgspecError) as cause:
        raise ValueError("expected a mint as this version packs it") from cause
