"""A simulated node: pending and landed transactions, and their outcomes.

The source of blocks, the chain of the market or a Pulse, calls `close_block` for each block, and
`rewind` for the blocks that a fork replaces.  The newest block gives the time; here, the clock is
used only for the time at which a transaction arrives.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from mintscope.kit.clock import Clock
from mintscope_devchain.blockstore import CommitmentLevel, SlotPace
from mintscope_devchain.faults import Faults, Landing
from mintscope_devchain.svm.bank import Bank, Execution
from mintscope_devchain.svm.blockhash_queue import BlockhashQueue, Refusal
from mintscope_devchain.svm.entry import entry
from mintscope_devchain.svm.genesis import Genesis
from mintscope_devchain.transaction import Json

K = TypeVar("K")
V = TypeVar("V")

BLOCKS_KEPT: Final = 600
LANDED_KEPT: Final = 10_000  # stored transactions, about 17 kB each
PENDING_MAX: Final = 10_000
ON_TIME: Final = Landing("late")


class Closed(NamedTuple):
    """The fields of a block that transactions depend on; *at_ms* is its time, Unix milliseconds."""

    slot: int
    height: int
    blockhash: Hash
    at_ms: int


class LandedTransaction(NamedTuple):
    """A sent transaction that is in a block.

    entry   the transaction in the form of the RPC method getBlock
    """

    signature: str
    transaction: VersionedTransaction
    outcome: Execution
    entry: Json
    block: Closed
    landing: Landing


class Busy(Exception):
    """The transaction was refused, because too many transactions wait for a block."""


class Vm:
    """A simulated Solana node: accounts, blockhashes, and transactions with their status.

    reached          a function that returns the newest slot of a commitment; None: the slot is
                     computed from *pace*
    elsewhere        a function that returns an account of the market; no transaction here can
                     change it
    held_elsewhere   a function that returns the token accounts of a mint in the market
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        *,
        clock: Clock,
        seed: int = 0,
        pace: SlotPace = SlotPace(),  # noqa: B008  # immutable
        reached: Callable[[CommitmentLevel], int] | None = None,
        elsewhere: Callable[[Pubkey], Account | None] = lambda _: None,
        held_elsewhere: Callable[[Pubkey], Iterable[Pubkey]] = lambda _: (),
    ) -> None:
        self.clock = clock
        self.pace = pace
        self.faults = Faults()
        self.genesis = Genesis(seed)
        self.bank = Bank()
        self.genesis.apply(self.bank)
        self._reached = reached or self._aged
        self._elsewhere = elsewhere
        self.held_elsewhere = held_elsewhere
        self._blockhashes = BlockhashQueue()
        self._blocks: deque[Closed] = deque(maxlen=BLOCKS_KEPT)
        self._pending: dict[str, _Pending] = {}
        self._fates: dict[str, Landing] = {}
        self._landed: dict[str, LandedTransaction] = {}
        self._held: dict[int, Sequence[LandedTransaction]] = {}

    def close_block(self, block: Closed) -> Sequence[LandedTransaction]:
        """Add *block* with all transactions that are due; return those of them that landed.

        From the next block on, transactions can name the hash of *block*.
        """
        self.bank.tell_time(slot=block.slot, time_s=block.at_ms // 1_000)
        due = [each for each in self._pending.values() if each.due_ms <= block.at_ms]
        landed = []
        for each in sorted(due, key=lambda each: each.due_ms):
            del self._pending[each.signature]
            if (one := self._land(each, block)) is not None:
                self._landed[one.signature] = one
                landed.append(one)
        # After the transactions have run: they cannot name the hash of their own block.
        self._blockhashes.open(block.blockhash, height=block.height)
        self._blocks.append(block)
        if landed:
            self._held[block.slot] = landed
        _trim(self._landed)
        _trim(self._fates)
        _trim(self._held)
        return landed

    def fork_depth(self) -> int:
        """Return the number of newest blocks to undo for the fault `vanish` to take effect."""
        slots = [landed.block.slot for landed in self._to_vanish()]
        return sum(block.slot >= min(slots) for block in self._blocks) if slots else 0

    def rewind(self, depth: int) -> None:
        """Undo the newest *depth* blocks, as a fork does; their transactions are pending again.

        A transaction that a fault makes vanish is not pending again: its client must resend it.
        """
        gone = {landed.signature for landed in self._to_vanish()}
        dropped = [self._blocks.pop() for _ in range(depth)]
        undone = list(self._since(dropped[-1].slot - 1))
        for landed in undone:
            self.bank.undo(landed.outcome)
            self._blockhashes.forget(landed.transaction.message)
            del self._landed[landed.signature]
        # Oldest first, so that they run in the same order again.
        for landed in reversed(undone):
            if landed.signature in gone:
                # If it is sent again, it must not vanish again.
                self._fates.pop(landed.signature, None)
            else:
                self._enqueue(landed.transaction, landed.landing, due_ms=0)
        for block in dropped:
            self._blockhashes.close(block.blockhash)
            self._held.pop(block.slot, None)

    def send(self, transaction: VersionedTransaction) -> None:
        """Accept *transaction* as pending, to be part of a later block.

        Ignore it if it is known, if a signature is invalid, or if the fault `dropped` applies.
        Raises Busy if too many transactions are pending.
        """
        signature = str(transaction.signatures[0])
        if signature in self._landed or signature in self._pending:
            return
        if not all(transaction.verify_with_results()):
            return
        if len(self._pending) >= PENDING_MAX:
            raise Busy
        # A transaction that is sent again keeps its fault.
        landing = self._fates.get(signature) or self.faults.landing() or ON_TIME
        if landing.kind == "dropped":
            return
        self._fates[signature] = landing
        late_ms = landing.ms if landing.kind == "late" else 0
        due_ms = self.clock.now() + self.pace.land + late_ms
        self._enqueue(transaction, landing, due_ms=due_ms)

    def refusal(
        self, transaction: VersionedTransaction, *, after: Closed | None = None
    ) -> Refusal | None:
        """Return the reason to refuse *transaction* in the block after *after*; None: no reason.

        after    None: the newest block
        """
        height = (after or self._blocks[-1]).height + 1
        return self._blockhashes.refusal(transaction.message, height=height)

    def last_valid_height(self, blockhash: Hash) -> int | None:
        """Return the last block height at which *blockhash* is valid; None if it is unknown."""
        return self._blockhashes.last_valid_height(blockhash)

    def block(self, commitment: CommitmentLevel) -> Closed:
        """Return the newest block that has *commitment*; if none has, the oldest known block."""
        reached = self._reached(commitment)
        at = (block for block in reversed(self._blocks) if block.slot <= reached)
        return next(at, self._blocks[0])

    def commitment(self, slot: int) -> CommitmentLevel:
        """Return the present commitment of the block of *slot*: "processed" if it is still new."""
        if slot <= self._reached("finalized"):
            return "finalized"
        return "confirmed" if slot <= self._reached("confirmed") else "processed"

    def account(self, address: Pubkey, commitment: CommitmentLevel) -> Account | None:
        """Return the account at *address* as it is at *commitment*.

        If no transaction here has created it, return the market's account; None if there is none.
        """
        account = self.bank.account(address)
        for landed in self._since(self.block(commitment).slot):
            # Newest first: the account as it was before the oldest of these transactions remains.
            account = landed.outcome.before.get(address, account)
        return account or self._elsewhere(address)

    def landed(self, signature: str) -> LandedTransaction | None:
        """Return the landed transaction with *signature*; None if no known block contains it."""
        return self._landed.get(signature)

    def held(self, slot: int) -> Sequence[LandedTransaction]:
        """Return the sent transactions in the block of *slot*, in order."""
        return self._held.get(slot, ())

    def history(self) -> Iterator[LandedTransaction]:
        """Yield all transactions that have landed and that the node still knows, newest first."""
        return reversed(self._landed.values())

    def _land(self, pending: "_Pending", block: Closed) -> LandedTransaction | None:
        signature, transaction, landing, _ = pending
        message = transaction.message
        if landing.kind == "never" or self._blockhashes.refusal(message, height=block.height):
            return None
        run = self.bank.fail if landing.kind == "failed" else self.bank.execute
        outcome = run(transaction)
        if not outcome.landed:
            return None
        self._blockhashes.remember(message)
        shown = entry(transaction, outcome, self.bank.account)
        return LandedTransaction(signature, transaction, outcome, shown, block, landing)

    def _enqueue(self, transaction: VersionedTransaction, landing: Landing, *, due_ms: int) -> None:
        signature = str(transaction.signatures[0])
        self._pending[signature] = _Pending(signature, transaction, landing, due_ms)

    def _to_vanish(self) -> list[LandedTransaction]:
        latest_ms = self._blocks[-1].at_ms - self.pace.confirm
        return [
            landed
            for landed in self._since(self._reached("finalized"))
            if landed.landing.kind == "vanish"
            and landed.block.at_ms + landed.landing.ms <= latest_ms
        ]

    def _since(self, slot: int) -> Iterator[LandedTransaction]:
        """Yield transactions that landed after *slot*, newest first."""
        return takewhile(lambda landed: landed.block.slot > slot, self.history())

    def _aged(self, commitment: CommitmentLevel) -> int:
        """Return the newest slot that is old enough for *commitment*, or else the oldest one."""
        age_ms = {"processed": 0, "confirmed": self.pace.confirm, "finalized": self.pace.finalize}
        before = self._blocks[-1].at_ms - age_ms[commitment]
        aged = (block.slot for block in reversed(self._blocks) if block.at_ms <= before)
        return next(aged, self._blocks[0].slot)


class _Pending(NamedTuple):
    signature: str
    transaction: VersionedTransaction
    landing: Landing
    due_ms: int


def _trim(kept: dict[K, V]) -> None:
    """Delete the oldest entries of *kept*, except the newest LANDED_KEPT."""
    for _ in range(len(kept) - LANDED_KEPT):
        del kept[next(iter(kept))]
