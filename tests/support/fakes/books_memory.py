"""The books of payments in memory, in the minimal form that an auditor needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mintscope.credits.invariants import Checked, Invariant, Proven, Violation, Walked
from mintscope.kit.audit import Actor
from mintscope.kit.primitives import Mint, Signature, UnixMs
from mintscope.payments.audit import Acknowledgement, DoubtKind, Orphan, Scan, ScanScope
from mintscope.payments.payment import Payment, State
from support.fakes.payment_memory import MemoryPaymentStore


@dataclass
class Doubt:
    kind: DoubtKind
    looks: list[int] = field(default_factory=list)


@dataclass
class MemoryBooks:
    store: MemoryPaymentStore
    scans: dict[tuple[ScanScope, Mint | None], Scan] = field(default_factory=dict)
    doubted: dict[Signature, Doubt] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    noted: dict[Signature, Orphan] = field(default_factory=dict)

    async def walked(self) -> Walked:
        return Walked(0, 0, None, None)

    async def forget_spends(self, *, now: UnixMs, kept_months: int) -> bool:  # noqa: ARG002 - it keeps none
        """Delete nothing, because the fake stores no spends."""
        return False

    async def prove(self, *, now: UnixMs, begins: bool) -> Proven:
        assert now or begins
        return Proven((), is_finished=True)

    async def check(self, *, after_entry: int | None) -> Checked:
        assert not after_entry
        found = []
        for signature, doubt in self.doubted.items():
            payment = self._payment(signature)
            if (
                payment is None
                or len(doubt.looks) < 3
                or doubt.looks[-1] - doubt.looks[0] < 300_000
            ):
                continue
            if doubt.kind is DoubtKind.ISSUED:
                found.append(Violation(Invariant.ISSUED_IS_FINAL, signature))
            elif payment.state is not State.ISSUED:
                found.append(Violation(Invariant.LANDED_IS_ISSUED, signature))
        return Checked(found, 0)

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        return self.scans.get((scope, asset))

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        self.scans[scope, asset] = scan

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        return [
            row.payment.signature
            for row in self.store.rows.values()
            if row.payment.state is State.ISSUED
            and not row.payment.final
            and row.resolved_at < before
            and row.payment.last_valid_height < height
        ][:count_max]

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        for signature in signatures:
            self.doubted.setdefault(signature, Doubt(kind)).looks.append(now)
        self._settle(())

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        due = [
            signature
            for signature, doubt in self.doubted.items()
            if doubt.kind is DoubtKind.ARRIVED and doubt.looks[-1] < now
        ]
        return due[:count_max]

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        self._settle(signatures)

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        assert now
        self.stops.append(why)

    async def note_orphans(self, orphans: Sequence[Orphan]) -> Sequence[Signature]:
        for each in orphans:
            self.noted.setdefault(each.signature, each)
        return [each.signature for each in orphans if each.signature in self.store.acknowledged]

    async def orphans(self) -> Sequence[Orphan]:
        return [
            each
            for name, each in self.noted.items()
            if name not in self.store.acknowledged and self._payment(name) is None
        ]

    async def acknowledge(
        self, signature: Signature, *, note: str, by: Actor, now: UnixMs
    ) -> Acknowledgement:
        assert all((note, by, now))
        if signature not in self.noted:
            return Acknowledgement.UNKNOWN
        if signature in self.store.acknowledged:
            return Acknowledgement.DONE_BEFORE
        if self._payment(signature) is not None:
            return Acknowledgement.HAS_ROW
        self.store.acknowledged.add(signature)
        return Acknowledgement.DONE

    def _payment(self, signature: Signature) -> Payment | None:
        rows = self.store.rows.values()
        return next((row.payment for row in rows if row.payment.signature == signature), None)

    def _settle(self, dismissed: Iterable[Signature]) -> None:
        for signature, doubt in list(self.doubted.items()):
            payment = self._payment(signature)
            is_issued = payment is not None and payment.state is State.ISSUED
            is_open = is_issued and payment is not None and not payment.final
            is_settled = payment is not None and (
                is_issued if doubt.kind is DoubtKind.ARRIVED else not is_open
            )
            if is_settled or signature in dismissed:
                del self.doubted[signature]
