"""Compiled kernels, stored on disk: `make setup` compiles them, or else the first start.

`python -m mintscope.app.running.kernels` compiles what is not there yet.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from numba.core.event import install_timer

from mintscope.dex import base58
from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.fold import MintFold
from mintscope.market.listing.columns import load_list_kernels
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL

log = structlog.get_logger()


@contextmanager
def telling_what_is_compiled() -> Iterator[None]:
    """Log the time spent on compiling during the block, if anything had to be compiled."""
    with install_timer("numba:compile", _tell):
        yield


def load_ingest_kernels() -> None:
    """Load the compiled code of decoder and fold, so that the first swap need not wait."""
    base58.decode("1" * (base58.SHORT_MAX + 1))
    fold = MintFold()
    swap = PricedSwap(WSOL, 0, 0, -1, 0, is_buy=True, volume=1, price_usd=1.0, price_sol=1.0)
    for time in (0, DAY_S):  # the second closes a candle of every timeframe
        fold.apply(UnixS(time), swap)


def main() -> None:
    """Compile everything."""
    with telling_what_is_compiled():
        load_ingest_kernels()
        load_list_kernels()
        Engine(1)


def _tell(took_s: float) -> None:
    log.info("kernels compiled", took_s=round(took_s, 1))


if __name__ == "__main__":
    main()
