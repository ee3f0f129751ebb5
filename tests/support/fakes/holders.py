"""Holders of a mint from memory, without a node."""

from collections.abc import Sequence

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.series.holders import Holder, HolderKind, Holders


class FakeHolders:
    """A HolderReader: half of each mint is burned; reads fail with the message *failure*, if any.

    reading_count   the number of reads
    """

    def __init__(self) -> None:
        self.failure: str | None = None
        self.reading_count = 0
        self.kept: dict[Mint, Holders] = {}

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:  # noqa: ARG002
        self.reading_count += 1
        if self.failure is not None:
            raise ServiceUnavailable(self.failure)
        burned = "1nc1nerator11111111111111111111111111111111"
        found = [
            Holder("account-one", burned, 500, HolderKind.BURNED, "incinerator"),
            Holder("account-two", "vault", 300, HolderKind.POOL, "pumpswap"),
            Holder("account-three", "stranger", 100, HolderKind.OTHER, None),
        ]
        self.kept[mint] = Holders(found, 1_000, 2, Slot(7), UnixMs(1_763_460_000_000))
        return self.kept[mint]

    def last(self, mint: Mint) -> Holders | None:
        return self.kept.get(mint)
