"""The table of programs whose swaps the decoder reads, and of routers.

A new program needs a row here, and a module if it needs its own reader.  At least two published
decoders agree on the instructions of rows that are not `proven`, but no recorded transaction was
decoded to test them.
"""

from collections.abc import Sequence
from typing import Final

from mintscope.dex import curves as launchlab
from mintscope.dex import pumpfun
from mintscope.dex.program import BUY, SELL, SWAP, SWAP_2, SWAP_V2, Leg, Migration, Program
from mintscope.dex.transfers import read, read_closed
from mintscope.dex.venues import VENUES

Swaps = dict[bytes, tuple[Leg, ...]]


def _swaps(heads: str, *legs: Leg) -> Swaps:
    """Return a table that has *legs* for each discriminator in *heads*, hex separated by spaces."""
    return {bytes.fromhex(head): legs for head in heads.split()}


def _vaults_of(owner: int) -> Leg:
    return Leg((owner,), owner)


FILL = "a860b7a35c0a28a0"
ANY: Final[Swaps] = {b"": ()}


TABLE: Final[tuple[Program, ...]] = (
    Program(
        "pumpfun",
        "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P",
        _swaps(f"{BUY} {SELL} 38fc74089edfcd5f", pumpfun.LEG_V1)
        | _swaps("b817ee6167c5d33d 5df6823ce7e940b2 c2ab1c46684d5b2f", pumpfun.LEG_V2)
        | _swaps("07051dc4f5176550 e1f7501ed5b38488 1c92de7726c469d5", pumpfun.LEG_V3),
        pumpfun.read,
        how="event, transfers agree",
        migrations={
            bytes.fromhex("9beae792ec9ea21e"): Migration((2,), 3, 9),  # migrate
            bytes.fromhex("bbcb121fceedfe29"): Migration((2,), 4, 10),  # migrate_v2
        },
    ),
    Program(
        "pumpswap",
        "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA",
        # Other instructions, such as multi_hop_swap, leave fees in the vault: their events give the
        # amounts.
        _swaps(f"{BUY} {SELL} c62e1552b4d9e870", _vaults_of(0)),
        read,
        how="transfers, event agrees",
    ),
    Program(
        "raydium_v4",
        "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8",
        _swaps("09 0b 10 11", Leg((), 1)),
        read,
        no_swaps=frozenset(_swaps("00 01 02 03 04 05 06 07 08 0a 0c 0d 0e 0f")),
        authority="5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    ),
    Program(
        "raydium_cpmm",
        "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C",
        _swaps("8fbe5adac41e33de 37d96256a34ab4ad", Leg((), 3)),
        read,
        authority="GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL",
    ),
    Program(
        "raydium_clmm",
        "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK",
        # The router instruction has any number of pools, at varying positions among its accounts.
        _swaps(f"{SWAP} {SWAP_V2}", _vaults_of(2)) | _swaps("457d73daf5baf2c4"),
        read,
    ),
    Program(
        "raydium_launchlab",
        "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj",
        _swaps("faea0d7bd59c13ec 18d3742869039938 9527de9bd37c981a 5fc8472208090ba6", Leg((), 4)),
        launchlab.launchlab_read,
        authority="WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh",
        how="transfers, event agrees",
        migrations={
            bytes.fromhex("cf52c091fecf91df"): Migration((1,), 23, 13),  # migrate_to_amm
            bytes.fromhex("885cc8671cda908c"): Migration((1,), 17, 5),  # migrate_to_cpswap
        },
    ),
    Program(
        "orca_whirlpool",
        "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc",
        _swaps(SWAP, _vaults_of(2))
        | _swaps(SWAP_V2, _vaults_of(4))
        | _swaps("c360ed6c44a2dbe6", _vaults_of(2), _vaults_of(3))  # two hops
        | _swaps("ba8fd11dfe02c275", _vaults_of(0), _vaults_of(1)),
        read,
    ),
    Program(
        "meteora_dlmm",
        "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo",
        _swaps(
            f"{SWAP} {SWAP_2} fa49652126cf4bb8 2bd7f784893cf351 38ade6d0ade49ccd 4a62c0d6b1334b33",
            _vaults_of(0),
        ),
        read,
        no_swaps=frozenset(_swaps("5c04b0c177b95309")),  # rebalance_liquidity
        how="transfers, event agrees",
    ),
    Program(
        "meteora_damm_v1",
        "Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB",
        # Each vault of the vault program owns itself; all pools of a mint share the mint's vault.
        _swaps(SWAP, Leg((3, 4), 0, shares=((5, 9), (6, 10)))),
        read,
    ),
    Program(
        "meteora_damm_v2",
        "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG",
        _swaps(f"{SWAP} {SWAP_2}", Leg((), 1)),
        read,
        authority="HLnpSz9h2S4hiLQ43rnSD9XkcUThA7B8hQMKmDaiTLcC",
        how="transfers, event agrees",
    ),
    Program(
        "meteora_dbc",
        "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN",
        _swaps(f"{SWAP} {SWAP_2}", Leg((), 2)) | _swaps("b75d992818e6c297", Leg((), 1)),
        read,
        authority="FhVo3mqL8PW5pH5U2CN4XE33DokiyZnUwuGpH2hmHLuM",
        how="transfers, event agrees",
        migrations={
            bytes.fromhex("1b013016b43f76d9"): Migration((7,), 0, 4),  # migrate_meteora_damm
            bytes.fromhex("9ca9e66735e45040"): Migration((13,), 0, 4),  # migration_damm_v2
        },
    ),
    Program(
        "phoenix",
        "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY",
        _swaps("00", Leg((6, 7), 2)),  # both vaults are their own owners
        read,
    ),
    Program(
        "lifinity_v2",
        "2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c",
        _swaps(SWAP, Leg((0,), 1)),
        read,
    ),
    Program(
        "pancake_clmm",
        "HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq",
        _swaps(f"{SWAP} {SWAP_V2}", _vaults_of(2)),
        read,
    ),
    Program(
        "byreal_clmm",
        "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2",
        # The third, swap_v3_dyn, is the only one that trades with pools whose fee changes.
        _swaps(f"{SWAP} {SWAP_V2} e52ed584692828e4", _vaults_of(2)),
        read,
    ),
    Program(
        "saber", "SSwpkEEcbUqx4vtoEByFjSkhKdCT862DNVb52nZg1UZ", _swaps("01", Leg((1,), 0)), read
    ),
    Program(
        "invariant",
        "HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt",
        _swaps(SWAP, Leg((8,), 1)),
        read,
    ),
    Program(
        "jupiter_rfq",
        "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH",
        _swaps(FILL, Leg((1,))),  # the maker owns the vaults; the two vaults name the pool
        read,
        is_pooled=True,
    ),
    Program(
        "jupiter_rfq_second",
        "2En5Y11SEAGLNmEezTuRUCwTyzyNReHaMbSnS5gjGsL1",
        _swaps(FILL, Leg((1,))),
        read,
        proven=False,
        is_pooled=True,
    ),
    *VENUES,
    Program("jupiter_v6", "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4", {}, None),
    Program("jupiter_dca", "DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M", {}, None),
    Program("jupiter_limit", "jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu", {}, None),
    Program("jupiter_limit_v2", "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X", {}, None),
    Program("okx_router", "6m2CDdhRgxpH4WjvdzxAYbGxwdGUz5MziiL5jek2kBma", {}, None),
    Program("okx_router_v2", "proVF4pMXVaYqmy4NjniPh4pqKNfMmsihgd4wdkCX3u", {}, None, proven=True),
    Program("raydium_route", "routeUGWgWzqBWFcrCfv8tritsqukccJPu3q5GPP3xS", {}, None),
    Program("dflow", "DF1ow4tspfHX9JwWJsAb9epbkA8hmpSEAtxXy1V27QBH", {}, None),
    Program("photon_router", "BSfD6SHZigAfDWSjzD5Q41jw8LmKwtmjskPH9XW1mrRW", {}, None),
    Program("axiom", "FLASHX8DrLbgeR8FcfNV1F5krxYcYMUdBkrP1EPBtxB9", {}, None),
    Program("term9", "term9YPb9mzAsABaqN71A4xdbxHmpBNZavpBiQKZzN3", {}, None, proven=False),
    Program("titan", "T1TANpTeScyeqVzzgNViGDNrkQ6qHz9KrSBS4aNXvGT", {}, None, proven=True),
    Program("gmgn", "GMgnVFR8Jb39LoXsEVzb3DvBy3ywCmdmJquHUy1Lrkqb", {}, None, proven=False),
)

UNLISTED: Final = Program("unlisted", "", ANY, read_closed)
"""Any program that is not in the table, judged by its transfers; see `recognition`."""

BY_ADDRESS: Final = {program.address: program for program in TABLE}


def added(name: str, address: str, heads: Sequence[bytes], pool: int | None) -> Program:
    """Return the layout of a program that an operator lists; its swaps are read from transfers.

    heads   first bytes of the instructions that swap; empty: all instructions
    pool    position of the account that names the pool and owns its vaults; None if no account does
    """
    legs = () if pool is None else (_vaults_of(pool),)
    return Program(name, address, dict.fromkeys(heads or [b""], legs), read_closed, proven=False)
