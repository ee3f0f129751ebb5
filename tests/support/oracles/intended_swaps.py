"""The swaps that the market of the devchain intends, which a decoder must find."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Slot
from mintscope_devchain.chain import Devchain
from mintscope_devchain.market.pool import Fill, Venue
from mintscope_devchain.transaction import Invocation

# Basis points. pump.fun: 95 for the protocol, 30 for the creator. PumpSwap: 20 for liquidity
# providers, 5 for the protocol, 5 for the creator.
FEE_BPS: Final = {Venue.PUMP_FUN: 125, Venue.PUMP_SWAP: 30}


def intended(chain: Devchain, slot: Slot) -> tuple[Swap, ...]:
    """Return the swaps that the devchain's market intends to make in *slot*, in order."""
    return tuple(_swaps(chain, slot))


def with_what_is_left(swaps: Iterable[Swap], chain: Devchain, slot: Slot) -> list[Swap]:
    """Return *swaps* of *slot*, with the amounts in their pools after each transaction."""
    after: dict[tuple[int, str], Mapping[str, int]] = {}
    for index, fill in _fills(chain, slot):
        base, quote = fill.after
        held: Mapping[str, int] = {fill.pool.base.mint: base, fill.pool.quote.mint: quote}
        after[index, fill.pool.address] = held
    return [
        one._replace(
            in_left=after[one.transaction_index, one.pool][one.in_mint],
            out_left=after[one.transaction_index, one.pool][one.out_mint],
        )
        for one in swaps
    ]


def _fills(chain: Devchain, slot: Slot) -> Iterator[tuple[int, Fill]]:
    """Yield each fill of the successful transactions, in order, with its transaction's index."""
    block = chain.blockstore.block(slot)
    for index, transaction in enumerate(() if block is None else block.transactions):
        if transaction.envelope.failed_at is None:
            for call in transaction.build():
                yield from ((index, node.fill) for node in _flatten(call) if node.fill is not None)


def _swaps(chain: Devchain, slot: Slot) -> Iterator[Swap]:
    block = chain.blockstore.block(slot)
    if block is None:
        return
    for index, (transaction, signature) in enumerate(
        zip(block.transactions, chain.signatures(block), strict=False)
    ):
        if transaction.envelope.failed_at is not None:
            continue
        for outer, call in enumerate(transaction.build()):
            for inner, node in enumerate(_flatten(call), start=-1):
                if (fill := node.fill) is not None:
                    yield Swap(
                        signature=signature,
                        transaction_index=index,
                        outer=outer,
                        inner=inner,
                        leg=0,
                        program=fill.pool.venue,
                        pool=fill.pool.address,
                        in_mint=fill.received.mint,
                        in_amount=fill.amount_in,
                        in_decimals=fill.received.decimals,
                        out_mint=fill.paid.mint,
                        out_amount=fill.amount_out,
                        out_decimals=fill.paid.decimals,
                        signer=transaction.envelope.payer,
                        progress=_progress(fill),
                        fee_bps=FEE_BPS.get(fill.pool.venue),
                    )


def _progress(fill: Fill) -> int | None:
    """Return the sold part of a curve's 793.1 M tokens, in millionths; None for other pools."""
    if fill.pool.venue is not Venue.PUMP_FUN:
        return None
    sold = 1_073_000_000 * 10**6 - fill.after.base
    return max(0, min(sold * 10**6 // (793_100_000 * 10**6), 10**6))


def _flatten(call: Invocation) -> Iterator[Invocation]:
    yield call
    for inner in call.inner:
        yield from _flatten(inner)
