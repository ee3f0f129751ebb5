"""The bytes of the log: an address stands once in each, and those of older versions are read."""

from typing import Final

import msgspec
from msgspec.structs import astuple, replace

from mintscope.kit.primitives import UnixS
from mintscope.market.log import Evidence, PricedSwap
from mintscope.market.standing import Offer, Standing, stand
from mintscope.market.standings import pack, unpack
from mintscope.market.store.log_reader import swaps_blob, swaps_of
from support.fakes.made_chain import MINTS

TOKEN: Final = MINTS[0]
POOLS: Final = (MINTS[1], None, MINTS[2])


def swaps() -> list[PricedSwap]:
    return [
        PricedSwap(
            TOKEN,
            number,
            0,
            0,
            0,
            is_buy=number % 2 == 0,
            volume=10**6,
            price_usd=1.5,
            price_sol=0.01,
            pool=POOLS[number % 3],
            offered=(1.6, 0.011) if number == 4 else None,
            evidence=Evidence(10**9, 10**6, "signer", uncounted=0) if number != 5 else None,
        )
        for number in range(8)
    ]


def test_swaps_name_each_pool_once() -> None:
    blob = swaps_blob(swaps())

    assert swaps_of(TOKEN, blob) == swaps()
    assert [blob.count(pool.encode()) for pool in POOLS if pool] == [1, 1]
    every = swaps_blob(replace(one, pool=MINTS[2 + one.outer]) for one in swaps()[:2])
    assert every.count(MINTS[2].encode()) == 1


def test_swaps_of_older_logs_name_a_pool_each_time() -> None:
    rows = [
        (*astuple(one)[1:10], one.offered, one.evidence) if one.evidence else astuple(one)[1:10]
        for one in swaps()
    ]
    assert swaps_of(TOKEN, msgspec.msgpack.encode(rows)) == swaps()


def test_pools_name_each_address_once() -> None:
    standing: Standing | None = None
    for second, pool in enumerate(POOLS[::2]):
        offer = Offer(str(pool), "signer", 1.5, 0.01, 10**8, 10**9, UnixS(1_700_000_000 + second))
        standing, _ = stand(standing, offer)
    assert standing is not None
    for pool in (*POOLS[::2], MINTS[3]):  # the last was put out since it set the price
        after = replace(standing, pool=str(pool))
        packed = pack(after)
        assert unpack(packed) == after
        assert packed.count(str(pool).encode()) == 1
        assert unpack(msgspec.msgpack.encode(after)) == after  # of an older log
