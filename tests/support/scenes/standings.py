"""Makes the price pools of a mint, packed as the log stores them."""

from mintscope.kit.primitives import UnixS
from mintscope.market.standing import Offer, Standing, stand
from mintscope.market.standings import pack


def packed_pool(time: int, *, depth_usd: int, age_s: int = 900, usd: float = 1.0) -> bytes:
    """Return one packed pool with *depth_usd*, in which three signers traded for *age_s* s."""
    standing: Standing | None = None
    for signer, before_s in (("a", age_s), ("b", age_s // 2), ("c", 0)):
        at = UnixS(time - before_s)
        offer = Offer("pool", signer, usd, usd / 100, 10**6, depth_usd * 10**6, at)
        standing, _ = stand(standing, offer)
    assert standing is not None
    return pack(standing)
