"""A generated chain for the tests of ingest.

Each transaction has one instruction, whose data is one swap in JSON.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from mintscope.dex import base58
from mintscope.dex.outcome import Decoded, Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.solana.blocks import USDC, WSOL, Block, Finalized, Tip, Update
from mintscope.solana.transaction import Instruction, Transaction, UnreadableTransaction

START = UnixS(1_700_000_000)
MINTS = [Mint(f"{name}{'1' * 40}") for name in ("Aa", "Bb", "Cc", "Dd")]

_one = msgspec.json.Decoder(Swap)


def swap(  # noqa: PLR0913 - a swap has as many sides; all have names
    base: Mint,
    quote: Mint,
    *,
    base_amount: int,
    quote_amount: int,
    is_buy: bool = True,
    base_decimals: int | None = 6,
    signer: str = "signer",
    index: int = 0,
    inner: int = -1,
) -> Swap:
    quote_side = (quote, quote_amount, 9 if quote == WSOL else 6)
    base_side = (base, base_amount, base_decimals)
    received, paid = (quote_side, base_side) if is_buy else (base_side, quote_side)
    return Swap(
        signature=Signature(f"signature-{index}"),
        transaction_index=index,
        outer=0,
        inner=inner,
        leg=0,
        program="made",
        pool="made",
        in_mint=received[0],
        in_amount=received[1],
        in_decimals=received[2],
        out_mint=paid[0],
        out_amount=paid[1],
        out_decimals=paid[2],
        signer=signer,
    )


def sol_sale(usd: float, *, sol: float = 1.0, index: int = 0) -> Swap:
    """Return a sale of *sol* SOL for USDC, at *usd* for each SOL."""
    return swap(
        WSOL,
        USDC,
        base_amount=int(sol * 1e9),
        quote_amount=int(sol * usd * 1e6),
        is_buy=False,
        base_decimals=9,
        index=index,
        signer=f"seller-{index}",
    )


def made_transaction(swap: Swap) -> Transaction:
    return Transaction(
        index=swap.transaction_index,
        signature=swap.signature,
        keys=["made"],
        signer_count=1,
        instructions=[Instruction([], msgspec.json.encode(swap), 0)],
        inner=None,
        balances=(),
        read_earlier=tuple,
    )


def swap_in(transaction: Transaction | UnreadableTransaction) -> Swap:
    assert isinstance(transaction, Transaction)
    return _one.decode(base58.decode(transaction.instructions[0].data))


def decode_made(transactions: Iterable[Transaction | UnreadableTransaction]) -> Decoded:
    """Return the swaps and migrations in *transactions* of a block that was made by `block`."""
    found = [swap_in(transaction) for transaction in transactions]
    migrations = [one for one in found if one.succeeds is not None]
    return Decoded([one for one in found if one.succeeds is None], [], [], migrations)


def block(
    slot: int,
    parent: Block | Tip | None,
    swaps: Sequence[Swap] = (),
    *,
    time: int | None = None,
    fork: str = "",
) -> Block:
    """Return the block at *slot* after *parent*; its hash depends on *fork*."""
    indexed = (one._replace(transaction_index=index) for index, one in enumerate(swaps))
    return Block(
        slot=Slot(slot),
        parent_slot=Slot(slot - 1) if parent is None else parent.slot,
        blockhash=f"hash-{slot}{fork}",
        parent_blockhash="" if parent is None else parent.blockhash,
        time=UnixS(START + slot if time is None else time),
        transactions=[made_transaction(one) for one in indexed],
    )


def random_swaps(
    random: Random, mints: Sequence[Mint] = MINTS, *, pools: Sequence[str] = ("made",)
) -> list[Swap]:
    """Return random swaps of one slot, in most cases with a SOL/USDC swap among them."""
    swaps = []
    if random.random() < 0.8:
        swaps.append(sol_sale(random.uniform(90, 110), sol=random.uniform(0.01, 3)))
    swaps.extend(
        swap(
            random.choice(mints),
            random.choice([WSOL, USDC]),
            base_amount=random.choice([1, 999, 5_000, 10**6, 10**9]),
            quote_amount=random.choice([10, 90_000, 10**6, 10**9]),
            is_buy=random.random() < 0.5,
            base_decimals=random.choice([6, 6, 6, None]),
            signer=f"signer-{number}",
        )
        for number in range(random.randrange(4))
    )
    turn = len(swaps) + sum(one.in_amount for one in swaps)
    return [
        one._replace(pool=pools[(turn + number) % len(pools)]) for number, one in enumerate(swaps)
    ]


def random_chain(
    seed: int, length: int, *, spread_s: int = 40, pools: Sequence[str] = ("made",)
) -> list[Block]:
    """Return *length* blocks; some slots are skipped, some block times are null or decrease."""
    random = Random(seed)
    blocks: list[Block] = []
    slot, time = 100, START
    for _ in range(length):
        slot += random.choice([1, 1, 1, 2, 3])
        time = UnixS(time + random.randrange(spread_s))
        made = block(
            slot,
            blocks[-1] if blocks else None,
            random_swaps(random, pools=pools),
            time=time - random.choice([0, 0, 0, 7]),
        )
        if blocks and random.random() < 0.05:
            made = msgspec.structs.replace(made, time=None)
        blocks.append(made)
    return blocks


@dataclass
class ListSource:
    """A source that yields the blocks of a list, and reports blocks as final.

    final_every   1: each block is reported as final; 2: every second block; and so on
    """

    blocks: Sequence[Block]
    final_every: int = 1
    asked: list[Tip | None] = field(default_factory=list)

    async def genesis_hash(self) -> str | None:
        """Return None, because this chain is not real."""
        return None

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        """Yield the blocks after the tip *after*, and report blocks as final.

        Blocks up to *after* are reported as final, too.  The last block is always reported.
        """
        self.asked.append(after)
        last = None
        for number, made in enumerate(self.blocks):
            if after is None or made.slot > after.slot:
                yield made
            last = made
            if number % self.final_every == 0:
                yield Finalized(made.slot)
        if last is not None:
            yield Finalized(last.slot)
