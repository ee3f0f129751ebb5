"""Four pools of SOL and dollars with honest signers; the code of ingest sets each slot's price."""

from collections.abc import Sequence
from random import Random
from typing import Final

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.pricing import price_slot, sol_usd, sol_usd_samples
from mintscope.market.quotes import Quotes
from mintscope.market.standings import Standings
from mintscope.solana.blocks import WSOL
from support.fakes.made_chain import sol_sale

HONEST: Final = {"first": 10_000_000, "second": 6_000_000, "third": 4_000_000, "closed": 4_000_000}


def sale(  # noqa: PLR0913 - what a swap says
    pool: str,
    usd: float,
    *,
    signer: str = "signer",
    depth: int | None = 10**6,
    sol: float = 2.0,
    at: int = 0,
) -> Swap:
    """Return a sale of *sol* SOL in transaction *at*, which leaves *depth* dollars in *pool*."""
    left = None if depth is None else depth * 10**6
    made = sol_sale(usd, sol=sol, index=at)
    return made._replace(pool=pool, out_left=left, signer=signer)


class SolMarket:
    """A market of SOL, which computes the price after each slot as ingest does.

    spread         the relative spread of the honest prices around 150 USD
    has_standing   whether samples are compared with the standings of their pools, as in ingest
    """

    def __init__(
        self, spread: float = 0.0004, seed: int = 1, *, has_standing: bool = False
    ) -> None:
        self.headers: list[SlotHeader] = []
        self.block_swaps: list[Sequence[Swap]] = []
        self.standings = Standings()
        self.priced: list[PricedSwap] = []
        self._random = Random(seed)
        self._spread = spread
        self._has_standing = has_standing

    def slot(self, time: int, swaps: Sequence[Swap]) -> float | None:
        """Add a slot with *swaps* in order; return the SOL price after it."""
        at = UnixS(time)
        agrees = self.standings.agrees(WSOL) if self._has_standing else None
        quotes = Quotes(self.standings.of, at)
        samples = sol_usd_samples(swaps, at, agrees, quotes)
        rate = sol_usd(reversed(self.headers), samples, at)
        usd, said_at = (None, None) if rate is None else (rate.usd, rate.at)
        slot = Slot(len(self.headers))
        self.headers.append(SlotHeader(slot, Slot(slot - 1), "", at, usd, said_at, samples))
        self.block_swaps.append(swaps)
        if self._has_standing:
            self.standings.begin(slot)
            self.priced = price_slot(swaps, rate, self.standings.sets_price, quotes, at).swaps
        return None if rate is None else rate.usd

    def honest(self, factor: float = 1.0) -> list[Swap]:
        """Return a trade in each honest pool, by five signers in rotation."""
        number = len(self.headers)
        return [
            sale(
                pool,
                150.0 * factor * (1 + self._random.uniform(-1, 1) * self._spread / 2),
                signer=f"{(number + at) % 5} of {pool}",
                depth=depth,
                at=at,
            )
            for at, (pool, depth) in enumerate(HONEST.items())
        ]

    def times(self) -> list[int]:
        return [int(header.time) for header in self.headers]
