"""Settlement over JSON-RPC, and the treasury on chain.

A transaction in a block can have failed, so `err` is read first.  The amount that arrived is
measured: the treasury's balance after that transaction, less the balance before.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self, TypeAlias, TypeVar

import httpx
from solders.hash import Hash
from solders.pubkey import Pubkey

from mintscope.kit.clock import Clock
from mintscope.kit.metrics import SPANS
from mintscope.kit.primitives import Mint, Signature
from mintscope.payments import node, ports
from mintscope.payments.audit import Arrivals
from mintscope.payments.payment import Landed, Reverted, Sighting, UnreadablePayment, Unseen
from mintscope.payments.protocol.envelope import Envelope, RecentBlockhash, Signed, Terms
from mintscope.payments.protocol.memo import (
    UnusablePaymentToken,
    expect_usable_mint,
    expect_usable_treasury,
)
from mintscope.payments.reconciler import YOUNG_BLOCKS, RecentBlockhashes
from mintscope.solana.blocks import Endpoint
from mintscope.solana.pace import BLOCKHASH_BLOCKS, SLOT_S_MAX, SLOT_S_MIN, Pace

Answer = TypeVar("Answer")

AUDITS_AT_ONCE: Final = 4  # most transactions that audits read at once; more would delay payments


def answered(answers: Sequence[Answer | BaseException], *, or_else: Answer) -> list[Answer]:
    """Return *answers* of nodes, with *or_else* in place of each ChainUnavailable.

    Raises the first error if all *answers* are errors, or else the first error that is no
    ChainUnavailable.
    """
    troubles = [each for each in answers if isinstance(each, BaseException)]
    for trouble in troubles:
        if not isinstance(trouble, ports.ChainUnavailable) or len(troubles) == len(answers):
            raise trouble
    return [or_else if isinstance(each, BaseException) else each for each in answers]


POLL_S: Final = 0.05
PATIENT_POLL_SLOTS: Final = 2.5  # slots between polls, if no payment was sent recently
FRESH_SLOTS: Final = 50
POLLS_IN_FLIGHT_MAX: Final = 4
TIP_SLOTS: Final = 5  # age limit of the cached tip that payments share, in slots
AHEAD_SLOTS: Final = 2  # slots that a payer's node is commonly ahead of ours
MARK_SLOTS: Final = 100  # slots over which a node's pace is measured; fewer are inaccurate
MARK_SLOTS_MIN: Final = 10
MARKS_MAX: Final = 16
SLOT_S_UNKNOWN: Final = 0.1  # the duration of a slot, in seconds, that counts until it is measured
STOPS: Final = "this process is about to stop"
TRIES: Final = 8  # the most repeated simulations, one per slot, while the blockhash is unknown
# The beginning of the chain's error if the third instruction, the transfer, fails.
TRANSFER_FAILED: Final = '{"InstructionError":[2,'
TOO_LITTLE: Final = TRANSFER_FAILED + '{"Custom":1}]}'
UNKNOWN_BLOCKHASH: Final = "BlockhashNotFound"
# While fewer transactions than this are being read, a transaction is requested as soon as it has a
# status, even if it is not confirmed yet, to save a round trip.
EAGER_MAX: Final = 16

Tried: TypeAlias = tuple[node.SimulatedAnswer, node.EpochInfo]


async def _none_followed() -> int:
    return 0


class RpcSettlement:
    """Simulates, sends and watches payments over JSON-RPC; used in one event loop.

    Implements Settlement, PaymentChain and TreasuryHistory.

    terms            the terms of every accepted token, the payment token's first
    pace             returns the pace of the chain that another source has measured; None: no source
                     has, so the pace that was measured at this node counts
    followed_slot    returns the newest confirmed slot that another source has seen; 0: none
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        endpoint: Endpoint,
        *,
        terms: Sequence[Terms],
        clock: Clock,
        pace: Callable[[], Pace | None] = lambda: None,
        followed_slot: Callable[[], Awaitable[int]] = _none_followed,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node = node.PaymentNode(endpoint, transport)
        self.genesis_hash = self._node.genesis_hash
        self.block_time_s = self._node.block_time_s
        self.lamports = self._node.lamports
        self._terms = terms
        self._audits = asyncio.Semaphore(AUDITS_AT_ONCE)
        self._clock = clock
        self._pace = pace
        self._sampled: Pace | None = None
        self._marks = deque[tuple[int, float]](maxlen=MARKS_MAX)
        self._followed_slot = followed_slot
        self._sleep = sleep
        self._recents = RecentBlockhashes()
        self._seen = node.EpochInfo(absolute_slot=0, block_height=0)
        self._seen_at_s = 0.0
        self._waiting: dict[Signature, list[asyncio.Future[Sighting]]] = {}
        self._reading: set[Signature] = set()
        self._awaited: set[asyncio.Timeout] = set()
        self._is_stopping = False
        self._fresh_until_s = 0.0
        self._tip: asyncio.Task[node.EpochInfo] | None = None
        self._tip_at_s = 0.0
        self._poller: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop all requests and close every connection."""
        running = [*self._tasks, *(each for each in (self._poller, self._tip) if each)]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._node.aclose()

    def slot_s(self) -> float:
        """Return the measured duration of a slot, in seconds; SLOT_S_UNKNOWN if none is known."""
        # A short measurement is inaccurate, so it counts only while the node has no samples either.
        measured = self._measured(MARK_SLOTS) or self._sampled or self._measured(MARK_SLOTS_MIN)
        pace = self._pace() or measured
        return SLOT_S_UNKNOWN if pace is None else pace.slot_s

    def _measured(self, slots_min: int) -> Pace | None:
        """Return the pace measured at this node over at least *slots_min* slots; None: too few."""
        if not self._marks:
            return None
        first, at_s = self._marks[0]
        last, until_s = self._marks[-1]
        slots = last - first
        seconds = until_s - at_s
        if slots < slots_min:
            return None
        return Pace(min(max(seconds / slots, SLOT_S_MIN), SLOT_S_MAX), seconds)

    def offer(self) -> RecentBlockhash | None:
        """Return the blockhash that a 402 offers for signing; None if no recent one is known.

        No request is made.
        """
        return self._recents.young(
            now_s=self._clock.monotonic_s(),
            slot_s=self.slot_s(),
            height=self._seen.block_height if self._is_seen_lately() else 0,
        )

    async def refresh_offer(self) -> None:
        """Request a newer blockhash to offer with 402s; a lagging node's blockhash is not used."""
        if (self._pace() or self._sampled) is None:
            with suppress(ports.ChainUnavailable):
                self._sampled = await self._node.pace()
        # A node that is further behind would only offer a blockhash that is too old.
        await self.recent_blockhash(slot_min=await self._followed_slot() - YOUNG_BLOCKS)

    async def recent_blockhash(self, *, slot_min: int = 0) -> Hash:
        """Return the newest confirmed blockhash.

        If its slot is at least *slot_min*, also offer it to clients for signing.
        """
        blockhash, found = await self._node.latest()
        if not self._marks or found.context.slot > self._marks[-1][0]:
            self._marks.append((found.context.slot, self._clock.monotonic_s()))
        height = found.value.last_valid_block_height
        if height is not None and found.context.slot >= slot_min:
            recent = RecentBlockhash(
                blockhash=str(blockhash), slot=found.context.slot, last_valid_height=height
            )
            self._recents.note(recent, now_s=self._clock.monotonic_s(), slot_s=self.slot_s())
        return blockhash

    async def simulate(self, envelope: Envelope, source: Pubkey) -> ports.Trial:
        """Simulate the transaction on the confirmed chain, and read the new balance of *source*."""
        tried, tip = await self._try(envelope, source)
        if tried.result == UNKNOWN_BLOCKHASH:
            known = await self._try_until_level(envelope, source, tried, tip)
            if isinstance(known, ports.UnknownBlockhash):
                return known
            tried, tip = known
        if isinstance(tried.result, str):
            terms = next(each for each in self._terms if each.treasury in envelope.accounts)
            return await self._explain(tried.result, source, terms)
        # A slot has at most one block, which bounds the height of the simulated block.
        height = tip.block_height + max(tried.slot - tip.absolute_slot, 0)
        named = self._recents.last_valid_height(str(envelope.message.recent_blockhash))
        last = height + BLOCKHASH_BLOCKS
        return ports.Simulated(
            balance_after=tried.result,
            last_valid_height=last if named is None else min(named, last),
        )

    async def _try(self, envelope: Envelope, source: Pubkey) -> Tried:
        tried, tip = await asyncio.gather(
            self._node.simulate(envelope.unsigned, source), self._confirmed_tip()
        )
        return tried, tip

    async def _try_until_level(
        self, envelope: Envelope, source: Pubkey, tried: node.SimulatedAnswer, tip: node.EpochInfo
    ) -> Tried | ports.UnknownBlockhash:
        """Retry once per slot, until the node knows the blockhash or will never know it.

        A blockhash is older than the payment that names it.  So a node that has passed the newest
        slot known at the start, and does not know the blockhash yet, will never know it.  But if
        the node itself has returned this blockhash before, only its expiry counts.  After
        TRIES retries, the node counts as behind.
        """
        named = self._recents.last_valid_height(str(envelope.message.recent_blockhash))
        seen_slot = self._seen.absolute_slot if self._is_seen_lately() else 0
        level = max(seen_slot, tried.slot, tip.absolute_slot, await self._followed_slot())
        for _ in range(TRIES):
            if named is not None and tip.block_height > named:
                return ports.UnknownBlockhash()
            if tried.slot >= level + AHEAD_SLOTS and named is None:
                return ports.UnknownBlockhash()
            await self._sleep(self.slot_s())
            tried, tip = await self._try(envelope, source)
            if tried.result != UNKNOWN_BLOCKHASH:
                return tried, tip
        return ports.UnknownBlockhash(is_node_behind=True)

    async def _explain(
        self, error: str, source: Pubkey, terms: Terms
    ) -> ports.Rejected | ports.TreasuryUnusable:
        """Return the outcome of a failed simulation.

        The outcome is TreasuryUnusable if the treasury's token account is the cause, else Rejected.
        """
        if error == TOO_LITTLE:
            return ports.Rejected(error, is_unfunded=True)
        if not error.startswith(TRANSFER_FAILED):
            return ports.Rejected(error)
        try:
            treasury, payers = await asyncio.gather(
                self._node.account(str(terms.treasury)), self._node.account(str(source))
            )
            expect_usable_treasury(treasury, terms)
        except UnusablePaymentToken as trouble:
            return ports.TreasuryUnusable(str(trouble))
        except ports.ChainUnavailable:
            return ports.Rejected(error)
        return ports.Rejected(error, is_unfunded=payers is None)

    async def _confirmed_tip(self) -> node.EpochInfo:
        """Return the newest confirmed block of the node, as of less than TIP_SLOTS slots ago.

        Many payments share one request.
        """
        now_s = self._clock.monotonic_s()
        tip = self._tip
        is_old = now_s - self._tip_at_s >= TIP_SLOTS * self.slot_s()
        if tip is None or is_old or _failed(tip):
            tip = self._tip = asyncio.create_task(self._node.tip("confirmed"))
            self._tip_at_s = now_s
        # A payment that is given up must not cancel the request of the others.
        found = await asyncio.shield(tip)
        if found.absolute_slot >= self._seen.absolute_slot or not self._is_seen_lately():
            self._seen, self._seen_at_s = found, self._clock.monotonic_s()
        return found

    def _is_seen_lately(self) -> bool:
        """Return whether the highest tip was seen less than the lifetime of a blockhash ago."""
        return self._clock.monotonic_s() - self._seen_at_s <= BLOCKHASH_BLOCKS * self.slot_s()

    def stop(self) -> None:
        """Let `broadcast`, `wait` and `look` raise ChainUnavailable at once, now and later."""
        self._is_stopping = True
        for awaited in self._awaited:
            awaited.reschedule(0)
        self._awaited.clear()

    @asynccontextmanager
    async def _until_stop(self) -> AsyncIterator[None]:
        """Run the block until `stop`.  Raises ChainUnavailable if `stop` was called."""
        if self._is_stopping:
            raise ports.ChainUnavailable(STOPS)
        awaited = asyncio.timeout(None)
        try:
            async with awaited:
                self._awaited.add(awaited)
                yield
        except TimeoutError as cause:
            raise ports.ChainUnavailable(STOPS) from cause
        finally:
            self._awaited.discard(awaited)

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction through the node to the validators that produce the next blocks."""
        async with self._until_stop():
            await self._node.send(signed.wire)

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait until the transaction is confirmed, and return its outcome.

        Return Unseen if no outcome is known within *patience_s* seconds.  All waiters share
        requests.
        """
        began_s = self._clock.monotonic_s()
        waiter: asyncio.Future[Sighting] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(signature, []).append(waiter)
        self._fresh_until_s = self._clock.monotonic_s() + FRESH_SLOTS * self.slot_s()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(patience_s), self._until_stop():
                return await waiter
        except TimeoutError:
            return Unseen()
        finally:
            self._waiting[signature].remove(waiter)
            if not self._waiting[signature]:
                del self._waiting[signature]
            outcome = type(waiter.result()).__name__ if _has_result(waiter) else "Unseen"
            SPANS.ended(
                "settlement", self._clock.monotonic_s() - began_s, {"mintscope.outcome": outcome}
            )

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history for *signatures*; return the results in the same order.

        The finalized height is read first, and each `Unseen` has it.  A transaction that is not
        found, and whose blockhash had expired at that height, can no longer land.  If the node that
        searched is behind the node that gave the height, `Unseen` has the height 0, which proves
        nothing.
        """
        if len(signatures) > node.STATUSES_MAX:
            raise ValueError(
                f"expected {node.STATUSES_MAX} signatures at most; was {len(signatures)}"
            )
        async with self._until_stop():
            tip = await self._node.tip("finalized")
            found = await self._node.statuses(signatures, search=True)
            height = tip.block_height if found.context.slot >= tip.absolute_slot else 0
            seen = await asyncio.gather(
                *(
                    self._examine(signature, status, height)
                    for signature, status in zip(signatures, found.value, strict=True)
                ),
                return_exceptions=True,
            )
        return answered(seen, or_else=Unseen())

    async def expect_usable(self, asset: Mint | None = None) -> None:
        """Check on chain that a token and its treasury account are as configured.

        asset     the mint of the token; None: the payment token
        Raises    UnusablePaymentToken if the check fails
        """
        terms = self._terms_of(asset)
        mint, treasury = await asyncio.gather(
            self._node.account(terms.asset), self._node.account(str(terms.treasury))
        )
        expect_usable_mint(mint, terms)
        expect_usable_treasury(treasury, terms)

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        """Return the newest page of transactions that touched the treasury account.

        asset            the token of the treasury account; None: the payment token
        after, before    only transactions between these two; None: no bound
        """
        treasury = str(self._terms_of(asset).treasury)
        page = await self._node.arrivals(treasury, after, before)
        return Arrivals(
            succeeded=[Signature(each.signature) for each in page if each.err is None],
            newest=Signature(page[0].signature) if page else None,
            oldest=Signature(page[-1].signature) if page else None,
        )

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        """Return, for each signature, whether it is a payment to this service, which pays the fee.

        The value is None if this is unknown.  Raises ChainUnavailable if every request failed.
        """
        said = await asyncio.gather(
            *(self._is_sponsored(each) for each in signatures), return_exceptions=True
        )
        return dict(zip(signatures, answered(said, or_else=None), strict=True))

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the bytes of a confirmed transaction, as its sender signed it.

        Return None if it is not found, is not confirmed, or cannot be read.
        """
        try:
            async with self._audits:
                return await self._node.wire(signature)
        except ports.Unintelligible:
            return None

    async def finalized_height(self) -> int:
        """Return the height of the newest finalized block."""
        return await self._node.height("finalized")

    async def _poll(self) -> None:
        """Poll the statuses of all awaited payments at a steady pace, even if answers are slow."""
        while self._waiting:
            # `_tasks` also has the reads of amounts, one for each signature in `_reading`.
            if len(self._tasks) < POLLS_IN_FLIGHT_MAX + len(self._reading):
                for start in range(0, len(self._waiting), node.STATUSES_MAX):
                    self._spawn(self._ask(list(self._waiting)[start : start + node.STATUSES_MAX]))
            is_fresh = self._clock.monotonic_s() < self._fresh_until_s
            await self._sleep(POLL_S if is_fresh else PATIENT_POLL_SLOTS * self.slot_s())

    async def _ask(self, signatures: list[Signature]) -> None:
        try:
            statuses = await self._node.statuses(signatures, search=False)
        except ports.ChainUnavailable:
            return  # the next poll follows soon
        for signature, status in zip(signatures, statuses.value, strict=True):
            if status is None or signature not in self._waiting:
                continue
            if status.is_confirmed and status.err is not None:
                self._tell(signature, Reverted(final=status.is_final))
            elif signature not in self._reading and (
                status.is_confirmed or len(self._reading) < EAGER_MAX
            ):
                self._reading.add(signature)
                self._spawn(self._ask_amount(signature, is_final=status.is_final))

    async def _ask_amount(self, signature: Signature, *, is_final: bool) -> None:
        try:
            sighting = await self._measure(signature, is_final=is_final)
        except ports.ChainUnavailable:
            return
        finally:
            self._reading.discard(signature)
        if sighting is not None:
            self._tell(signature, sighting)

    def _tell(self, signature: Signature, sighting: Sighting) -> None:
        for waiter in self._waiting.get(signature, ()):
            if not waiter.done():
                waiter.set_result(sighting)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # The event loop keeps only weak references to tasks.
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _examine(
        self, signature: Signature, status: node.Status | None, height: int
    ) -> Sighting:
        if status is None:
            return Unseen(height=height)
        if not status.is_confirmed:
            return Unseen()  # the transaction is processed, but not confirmed yet
        if status.err is not None:
            return Reverted(final=status.is_final)
        return await self._measure(signature, is_final=status.is_final) or Unseen()

    async def _measure(
        self, signature: Signature, *, is_final: bool
    ) -> Landed | Reverted | UnreadablePayment | None:
        """Return the outcome of a confirmed transaction; None if the node does not have it yet."""
        try:
            found = await self._node.transaction(signature)
        except ports.Unintelligible as trouble:
            return UnreadablePayment(why=str(trouble))
        if found is None:
            return None
        if found.meta.err is not None:
            return Reverted(final=is_final)
        try:
            return Landed(paid=self._received(found), final=is_final)
        except ValueError as trouble:
            return UnreadablePayment(why=str(trouble))

    async def _is_sponsored(self, signature: Signature) -> bool | None:
        try:
            async with self._audits:
                found = await self._node.transaction(signature)
        except ports.Unintelligible:
            return None
        if found is None:
            return None
        if found.transaction.message.account_keys[:1] != [self._terms[0].fee_payer]:
            return False
        try:  # a transaction that only opens the treasury's account is no payment
            return self._received(found) > 0
        except ValueError:
            return None

    def _terms_of(self, asset: Mint | None) -> Terms:
        """Return the terms of *asset*, which must be an accepted token; None: the payment token."""
        return next(each for each in self._terms if asset in {None, each.asset})

    def _received(self, found: node.ConfirmedTransaction) -> int:
        """Return the atoms that the treasury gained; 0: none; below 0: it lost atoms.

        Raises    ValueError for invalid amounts, and if the balances of several tokens changed
        """
        amounts = [
            node.received(found, asset=each.asset, treasury=str(each.treasury))
            for each in self._terms
        ]
        moved = [amount for amount in amounts if amount]
        if len(moved) > 1:
            raise ValueError("expected one token to arrive; there were several")
        return moved[0] if moved else 0


def _has_result(waiter: "asyncio.Future[Sighting]") -> bool:
    return waiter.done() and not waiter.cancelled()


def _failed(task: "asyncio.Task[node.EpochInfo]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
