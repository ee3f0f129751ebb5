"""A market that trades on command, and tailers of its log."""

from random import Random

from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.log import FakeLog

SECOND = Mint("JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN")
TRADED, TOO_NEW = (Mint(WSOL), SECOND), Mint(USDC)
MINUTES = 12
CAPACITY = 8  # the most mints that a tailer has in memory


def traded_log(now_s: int) -> FakeLog:
    """Return a log with two mints that traded for 12 minutes until *now_s*, and an idle mint."""
    log = FakeLog()
    for mint in (*TRADED, TOO_NEW):
        log.track(mint)
    for minute in range(MINUTES):
        trade(log, *TRADED, at_s=now_s - 60 * (MINUTES - 1 - minute))
    return log


def trade(log: FakeLog, *mints: Mint, at_s: int | None = None) -> None:
    """Append a slot to *log* in which each of *mints* trades once.

    at_s    the time of the slot, Unix seconds; None: the time of the previous slot
    """
    tip, random = log.tip_at(log.seq), Random(log.seq)
    log.append(
        (tip.slot or 0) + 1,
        at_s or tip.time or 0,
        *(
            PricedSwap(mint, n, 0, -1, 0, random.random() < 0.5, 10**6, random.random() + 1, 0.01)
            for n, mint in enumerate(mints)
        ),
    )


async def following(log: FakeLog, clock: Clock) -> tuple[LogTailer, Broadcaster]:
    """Return a tailer of *log* that has caught up with it, and its broadcaster."""
    market = LiveMarket(CAPACITY)
    follower = LogTailer(log, market, clock)
    broadcaster = Broadcaster(follower, market, clock)
    await follower.catch_up()
    return follower, broadcaster
