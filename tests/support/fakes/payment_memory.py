"""A PaymentStore in memory, with the least code that has the required behaviour.

It passes tests/contract/test_payment_store.py, like all stores.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mintscope.kit.audit import Actor
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments.payment import (
    Evidence,
    Landed,
    NewToken,
    PaidReport,
    Payment,
    State,
    TopUp,
    apply,
)
from mintscope.payments.ports import (
    KEY_TAKEN,
    LEASE_MS_MAX,
    SALES_CLOSED,
    WALLET_LAMPORTS_MIN,
    AlreadyUsed,
    Beginning,
    Begun,
    Found,
    Inconsistent,
    KnownPayment,
    Objection,
    PendingPayment,
    Rotated,
    Used,
)
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Refused


@dataclass
class Row:
    payment: Payment
    lease_until: UnixMs
    quote: bytes = b""
    resolved: int = 0
    resolved_at: int = 0
    handed_out: bool = False
    frozen: int = 0


@dataclass
class MemoryPaymentStore:
    rows: dict[MessageHash, Row] = field(default_factory=dict)
    balances: Counter[object] = field(default_factory=Counter)  # by token hash or account
    successors: dict[object, object] = field(default_factory=dict)  # the new token, by the old one
    fund_lamports: int | None = None
    is_closed: bool = False
    acknowledged: set[Signature] = field(default_factory=set)
    resolutions: int = 0

    async def find(self, message_hash: MessageHash) -> Found:
        row = self.rows.get(message_hash)
        return Found(None if row is None else self._seen(row), self.resolutions)

    async def has_bought(self, payer: Wallet) -> bool:
        return any(each.payer == payer for each in self._issued())

    async def has_bought_from(self, address: str) -> bool:
        return any(each.address == address for each in self._issued())

    def _issued(self) -> list[Payment]:
        payments = [row.payment for row in self.rows.values()]
        return [each for each in payments if each.state is State.ISSUED]

    async def begin(self, asked: PendingPayment) -> Beginning:
        payment = asked.payment
        known = self.rows.get(payment.message_hash)
        if known is not None:
            return KnownPayment(self._seen(known))
        if isinstance(payment.purchase, TopUp) and _account(payment) in self.successors:
            return Rotated()
        objection = self._find_objection(asked)
        if objection is None and asked.quote in {row.quote for row in self.rows.values()}:
            objection = Refused(RefusalReason.QUOTE_USED)
        if objection is None and self.fund_lamports is not None:
            if self.fund_lamports < asked.budget.fund_lamports_min:
                return SALES_CLOSED
            self.fund_lamports -= payment.fee_lamports
        if objection is None:
            self.rows[payment.message_hash] = Row(payment, asked.lease_until, asked.quote)
        return objection or Begun()

    def _find_objection(self, asked: PendingPayment) -> Objection | None:
        payment = asked.payment
        if self.is_closed:
            return SALES_CLOSED
        if self._is_taken(payment):
            return KEY_TAKEN
        others = list(self.rows.values())
        reserved = sum(
            row.payment.amount
            for row in others
            if row.payment.payer == payment.payer
            and row.payment.asset in {payment.asset, None}
            and (row.payment.state is State.PENDING or row.resolved > asked.mark)
        )
        if reserved > asked.balance_after:
            return Refused(RefusalReason.FUNDS)
        reverted_today = [
            row
            for row in others
            if row.payment.reason is RefusalReason.REVERTED
            and row.resolved_at > payment.begun_at - DAY_MS
        ]
        reverted = [row for row in reverted_today if row.resolved_at > payment.begun_at - HOUR_MS]
        pending = [row for row in others if row.payment.state is State.PENDING]
        sold = [
            row
            for row in others
            if row.payment.state is State.ISSUED and row.resolved_at > payment.begun_at - HOUR_MS
        ]
        bought = Counter(
            row.payment.payer
            for row in others
            if row.payment.state is State.ISSUED and payment.begun_at - row.resolved_at < DAY_MS
        )
        excess = _find_excess(asked, reverted, pending, sold)
        if excess is None and not bought[payment.payer]:
            excess = _find_excess_of_stranger(asked, pending)
        if excess is not None:
            return Refused(excess)
        failed = Counter(row.payment.payer for row in reverted_today)
        is_too_much = _is_burned_too_much(asked, reverted, pending, failed=failed, bought=bought)
        if is_too_much or self._is_promised_too_much(asked, pending, set(bought)):
            return SALES_CLOSED
        return None

    def _is_promised_too_much(
        self, asked: PendingPayment, pending: list[Row], buyers: set[Wallet]
    ) -> bool:
        fee, most = asked.payment.fee_lamports, asked.budget.in_flight_fee_lamports
        if self.fund_lamports is not None:
            most = min(most, self.fund_lamports + _fees(pending) - WALLET_LAMPORTS_MIN)
        if _fees(pending) + fee > most:
            return True
        of_strangers = [row for row in pending if row.payment.payer not in buyers]
        return asked.payment.payer not in buyers and _fees(of_strangers) + fee > most / 2

    async def forget_reports(self, before: UnixMs) -> None:
        for row in self.rows.values():
            payment = row.payment
            is_report = isinstance(payment.purchase, PaidReport)
            if is_report and payment.final and payment.begun_at <= before:
                row.payment = replace(payment, purchase=PaidReport(body=b""))

    async def resolve(
        self,
        message_hash: MessageHash,
        evidence: Evidence,
        *,
        now: UnixMs,
        again_ms: int,
        is_for_client: bool = False,  # noqa: ARG002 - no request is cancelled here
    ) -> Payment:
        row = self.rows.get(message_hash)
        if row is None:
            raise Inconsistent("no such payment")
        after = apply(row.payment, evidence)
        if after != row.payment:
            row.lease_until = UnixMs(now + again_ms)
            if after.state is not row.payment.state:
                if self.fund_lamports is not None and after.reason is RefusalReason.EXPIRED:
                    self.fund_lamports += after.fee_lamports
                self.resolutions += 1
                row.resolved, row.resolved_at = self.resolutions, now
                self._move_purchase(row, after)
            row.payment = after
        return self._seen(row)

    async def adopt(
        self, payment: Payment, landed: Landed, *, by: Actor, now: UnixMs
    ) -> Payment | AlreadyUsed:
        assert by
        if payment.signature in self.acknowledged:
            return AlreadyUsed(Used.ACKNOWLEDGED)
        if payment.message_hash not in self.rows:
            if self._is_taken(payment):
                return KEY_TAKEN
            self.rows[payment.message_hash] = Row(payment, now)
        # 0: the payment is final, so it is not checked again
        return await self.resolve(payment.message_hash, landed, now=now, again_ms=0)

    def _is_taken(self, payment: Payment) -> bool:
        return any(
            row.payment.key_hash == payment.key_hash and row.payment.state is not State.FAILED
            for row in self.rows.values()
        )

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        overdue = [
            row
            for row in self.rows.values()
            if not row.payment.final and not now < row.lease_until <= now + LEASE_MS_MAX
        ]
        overdue.sort(key=lambda row: row.lease_until)
        for row in overdue[:count_max]:
            row.lease_until = until
        return [self._seen(row) for row in overdue[:count_max]]

    async def postpone(self, message_hash: MessageHash, *, until: UnixMs) -> None:
        self.rows[message_hash].lease_until = until

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        return [
            self._seen(row) for row in self.rows.values() if row.payment.signature in signatures
        ]

    def spend(self, account: object) -> None:
        assert self.balances[account] > 0
        self.balances[account] -= 1

    def rotate(self, account: object, successor: object) -> None:
        self.balances[successor] += self.balances.pop(account, 0)
        self.successors.setdefault(account, successor)

    def _seen(self, row: Row) -> Payment:
        purchase, account = row.payment.purchase, _account(row.payment)
        touched = (
            isinstance(purchase, NewToken)
            and row.payment.state is State.ISSUED
            and self.balances[account] != purchase.credits
        )
        return replace(row.payment, touched=touched)

    def _move_purchase(self, row: Row, after: Payment) -> None:
        if isinstance(after.purchase, PaidReport):
            return
        account: object = _account(after)
        while account in self.successors:
            account = self.successors[account]
        if after.state is State.ISSUED:
            self.balances[account] += row.frozen if row.handed_out else after.purchase.credits
            row.handed_out, row.frozen = True, 0
        elif after.state is State.FROZEN and row.handed_out:
            row.frozen = min(after.purchase.credits, self.balances[account])
            self.balances[account] -= row.frozen


def _find_excess(
    asked: PendingPayment, reverted: list[Row], pending: list[Row], sold: list[Row]
) -> RefusalReason | None:
    payment = asked.payment
    for who, at_first in (
        ("payer", asked.budget.in_flight_payer),
        ("address", asked.budget.in_flight_address),
    ):
        failed_here, pending_here, sold_here = (
            [row for row in rows if getattr(row.payment, who) == getattr(payment, who)]
            for rows in (reverted, pending, sold)
        )
        forgiven = len(sold_here) + 1 if who == "address" else 0
        if len(failed_here) >= asked.budget.failures + forgiven:
            return RefusalReason.TOO_MANY_FAILURES
        at_risk_here = failed_here + pending_here
        if len(at_risk_here) >= at_first + len(sold_here) or (
            (_fees(at_risk_here) + payment.fee_lamports) * 10 > asked.budget.fee_lamports
        ):
            return RefusalReason.TOO_MANY_PENDING
    return None


def _find_excess_of_stranger(asked: PendingPayment, pending: list[Row]) -> RefusalReason | None:
    waiting = sum(row.payment.payer == asked.payment.payer for row in pending)
    is_too_much = waiting >= asked.budget.in_flight_new_payer
    return RefusalReason.TOO_MANY_PENDING if is_too_much else None


def _is_burned_too_much(
    asked: PendingPayment,
    reverted: list[Row],
    pending: list[Row],
    *,
    failed: Counter[Wallet],
    bought: Counter[Wallet],
) -> bool:
    payer, fee, most = asked.payment.payer, asked.payment.fee_lamports, asked.budget.fee_lamports
    waiting = sum(row.payment.payer == payer for row in pending)
    own = [row for row in reverted if failed[row.payment.payer] <= bought[row.payment.payer]]
    others = _fees(reverted) - _fees(own)
    if failed[payer] + waiting >= bought[payer] and others + fee > most / 2:
        return True
    return _fees(own) + min(others, most // 2) + fee > most


def _fees(rows: list[Row]) -> int:
    return sum(row.payment.fee_lamports for row in rows)


def _account(payment: Payment) -> bytes | CreditAccount | None:
    match payment.purchase:
        case NewToken(token_hash=token_hash):
            return token_hash
        case PaidReport():
            return None
        case top_up:
            return top_up.account
