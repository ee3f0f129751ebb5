"""The rate of SOL in dollars: the price on which several pools agree.

Vote      in each pool, the newest price of each of its SIGNERS newest signers of the last minute;
          each slot has only one vote in a pool, because a bundle of transactions is one trader
Weight    of a pool: the least dollars in it during that minute; each vote has a third of them.  A
          pool that was first seen later than the others weighs less, in proportion; a pool that has
          not traded for more than SILENCE_S weighs an eighth.  Pools with less than a thousandth of
          the dollars of the deepest pool are left out.
Shares    if there are three or more signers, none has more than a third of all weight; the same
          applies to pools
Rate      the median of the votes by weight; if there is only one pool, its newest price

So a pool, a signer or a transaction with at most a third of the weight cannot move the rate past
all votes of the others.  If no balances are known, a pool weighs the lamports of its votes.

The rate is a function of the samples of a minute only: a log that begins later has the same rates
one minute after its first sample.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

SIGNERS: Final = 3  # newest signers of a pool that have a vote
# A pool with less than a thousandth of the deepest one's dollars is left out.  With an eighth, as
# in `standing`, one pool could exclude all others.
FRACTION: Final = 1_000
SILENCE_S: Final = 8
SILENT: Final = 8  # a silent pool weighs one eighth
SHARED_MIN: Final = 3  # with at least this many pools or signers, none has more than a third
ROUNDS: Final = 4  # the most rounds of lowering shares; usually one is enough
ROUNDING: Final = 1e-12  # the part by which weights may exceed a third, because they are rounded


class Sample(NamedTuple):
    """The price of a swap of SOL for dollars; older logs have only the first two fields.

    usd            the price of one SOL
    lamports       the traded lamports
    depth          the least micro-USD in its pool in this slot; None if no balance shows it
    pool, signer   the starts of their addresses
    """

    usd: float
    lamports: int
    depth: int | None = None
    pool: str = ""
    signer: str = ""


class Vote(NamedTuple):
    """A price of SOL that counts for the rate, with its pool, its signer and its weight."""

    pool: str
    signer: str
    usd: float
    weight: float


OF_POOL: Final[Callable[[Vote], str]] = attrgetter("pool")
OF_SIGNER: Final[Callable[[Vote], str]] = attrgetter("signer")


class _Pool:
    """The prices of SOL in one pool in the last minute, from which the rate is computed.

    votes      the newest price of each signer that has a vote, the newest first
    depth      the least micro-USD in the pool; None if unknown
    voted      the index of the slot of the oldest vote; 0 is the newest slot
    age_s      the seconds since the newest price
    stood_s    the seconds since the oldest price
    """

    __slots__ = ("age_s", "depth", "stood_s", "voted", "votes")

    def __init__(self, age_s: int) -> None:
        self.votes: dict[str, Sample] = {}
        self.voted = -1
        self.depth: int | None = None
        self.age_s = age_s
        self.stood_s = age_s

    def vote_weight(self, money: int) -> float:
        """Return the weight of each price from this pool, relative to prices from other pools.

        money   the money in the pool, in the same unit for all pools
        """
        weight = float(money * (self.stood_s + 1))  # + 1: a pool may be first seen in this second
        return weight / SILENT if self.age_s > SILENCE_S else weight


def newest(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return those of *samples*, the prices of SOL in one slot, that can count for the rate.

    They are in the same order, oldest first.  For each pool, they are the newest samples of its
    SIGNERS newest signers, one for each signer, with the least depth of all samples of the pool.
    """
    taken: list[Sample] = []
    depths: dict[str, int | None] = {}
    signers: dict[str, set[str]] = {}
    for sample in reversed(list(samples)):
        depth = depths.get(sample.pool)
        if depth is None or (sample.depth is not None and sample.depth < depth):
            depths[sample.pool] = sample.depth
        seen = signers.setdefault(sample.pool, set())
        if len(seen) < SIGNERS and sample.signer not in seen:
            seen.add(sample.signer)
            taken.append(sample)
    return tuple(sample._replace(depth=depths[sample.pool]) for sample in reversed(taken))


def agreed(window: Iterable[tuple[int, Sequence[Sample]]]) -> float | None:
    """Return the dollars for one SOL on which several pools agree; None without samples.

    window   (seconds ago, samples of one slot), the newest slot first; its samples are oldest first
    """
    pools: dict[str, _Pool] = {}
    for slot, (age_s, samples) in enumerate(window):
        for sample in reversed(samples):
            _, _, depth, name, signer = sample  # unpacked at once, for speed
            pool = pools.get(name)
            if pool is None:
                pool = pools[name] = _Pool(age_s)
            votes = pool.votes
            # One vote a slot: the transactions of a bundle are one trader.
            if pool.voted != slot and len(votes) < SIGNERS and signer not in votes:
                votes[signer] = sample
                pool.voted = slot
            if depth is not None and (pool.depth is None or depth < pool.depth):
                pool.depth = depth
            pool.stood_s = age_s  # samples come newest first, so the oldest one sets the last value
    if not pools:
        return None
    if len(pools) == 1:
        (only,) = pools.values()
        return next(iter(only.votes.values())).usd
    return weighted_median((vote.usd, vote.weight) for vote in _shared(_votes(pools)))


def _votes(pools: Mapping[str, _Pool]) -> list[Vote]:
    """Return the prices that count for the rate, those of pools with enough dollars."""
    money = {name: pool.depth or 0 for name, pool in pools.items()}
    if not any(money.values()):
        money = {
            name: sum(vote.lamports for vote in pool.votes.values()) for name, pool in pools.items()
        }
    most = max(money.values())
    return [
        Vote(name, signer, vote.usd, pool.vote_weight(money[name]))
        for name, pool in pools.items()
        if money[name] * FRACTION >= most
        for signer, vote in pool.votes.items()
    ]


def _shared(votes: list[Vote]) -> list[Vote]:
    """Return *votes* with lower weights, so that no signer and no pool has more than a third.

    Fewer than three signers, or pools, are not limited.  If both limits cannot hold, only the limit
    of pools does, because pools are lowered last: trades in the pools of others cost more than
    trades in one's own pool.
    """
    for _ in range(ROUNDS):
        lowered = _lowered(_lowered(votes, OF_SIGNER), OF_POOL)
        if lowered is votes:  # `_lowered` returns the same list if it changes nothing
            break
        votes = lowered
    return votes


def _lowered(votes: list[Vote], owner: Callable[[Vote], str]) -> list[Vote]:
    """Return *votes*, with the weight of each pool, or of each signer, limited to a third of all.

    If there are fewer than three of them, or none has more, *votes* itself is returned.

    owner   returns the pool, or the signer, of a vote
    """
    owners = list(map(owner, votes))
    totals: dict[str, float] = {}
    for one, vote in zip(owners, votes, strict=True):
        totals[one] = totals.get(one, 0.0) + vote.weight
    most = third(list(totals.values()))
    if most is None:
        return votes
    return [
        vote._replace(weight=vote.weight * most / totals[one]) if totals[one] > most else vote
        for one, vote in zip(owners, votes, strict=True)
    ]


def third(weights: Sequence[float]) -> float | None:
    """Return the limit to which weights must be cut so that none is above a third of their sum.

    None if no weight is above a third, or if there are fewer than three weights.
    """
    if len(weights) < SHARED_MIN:
        return None
    heaviest, second, *others = sorted(weights, reverse=True)
    rest = sum(others)
    if heaviest * SHARED_MIN <= (heaviest + second + rest) * (1 + ROUNDING):
        return None
    # The limit is half of the sum of the others.  If the second weight is above this, too, both are
    # cut to the sum of the rest.
    return (second + rest) / 2 if second <= rest else rest


def weighted_median(votes: Iterable[tuple[float, float]]) -> float:
    """Return the weighted median of *votes*: (price, weight).

    It is the least price such that votes at or below it have at least half of all weight.  Raises
    ValueError without votes.
    """
    ordered = sorted(votes)
    half = sum(weight for _, weight in ordered) / 2
    below = 0.0
    for price, weight in ordered:
        below += weight
        if below >= half:
            return price
    raise ValueError("expected at least one vote")
