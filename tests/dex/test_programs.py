"""The table of programs: the program ids, and the first bytes of instructions."""

import json
from collections import defaultdict
from pathlib import Path

from venue_layouts import LAYOUTS

from mintscope.dex.programs import TABLE
from support.scenes.made_transactions import unb58

# Swap instructions that have no layout in LAYOUTS.
BESIDES = {"manifest": {b"\x06"}}
ROUTERS = {
    *("jupiter_v6", "jupiter_dca", "jupiter_limit", "jupiter_limit_v2", "photon_router"),
    *("okx_router", "okx_router_v2", "raydium_route", "dflow"),
    *("axiom", "term9", "titan", "gmgn"),
}


def test_program_ids_are_unique_addresses_and_names_are_unique() -> None:
    assert all(len(unb58(program.address)) == 32 for program in TABLE)
    assert len({program.address for program in TABLE}) == len(TABLE)
    assert len({program.name for program in TABLE}) == len(TABLE)


def test_first_bytes_in_the_table_equal_those_of_the_published_layouts() -> None:
    published: defaultdict[str, set[bytes]] = defaultdict(set)
    for layout in LAYOUTS:
        published[layout.address] |= {head for _, head in layout.instructions()}
    named = 0
    for program in TABLE:
        heads = set(program.swaps) - {b""}
        assert (program.name in ROUTERS) == (not program.swaps and program.read is None)
        if heads:  # no heads: a router, or a program without published instructions
            others = BESIDES.get(program.name, set())
            assert heads == published[program.address] | others, program.name
            named += 1
    assert named > 50


def test_pool_positions_equal_those_of_the_published_layouts(shared_data: Path) -> None:
    layouts = json.loads((shared_data / "layouts" / "dex_layouts.json").read_text())
    pools = {
        "pool", "amm", "AmmId", "pool_state", "poolState", "lbPair", "whirlpool",
        "whirlpoolOne", "whirlpoolTwo", "bonding_curve",
    }  # fmt: skip
    files = {
        "pumpfun": "pumpfun.json",
        "pumpswap": "pump_amm.json",
        "raydium_cpmm": "raydium_cpmm.json",
        "raydium_clmm": "raydium_clmm.json",
        "raydium_launchlab": "raydium_launchpad.json",
        "orca_whirlpool": "orca_whirlpool.json",
        "meteora_dlmm": "meteora_dlmm.json",
        "meteora_damm_v1": "meteora_amm.json",
        "meteora_damm_v2": "meteora_damm_v2.json",
    }
    compared = 0
    for program in TABLE:
        for instruction in layouts.get(files.get(program.name, ""), {}).get("instructions", ()):
            legs = program.swaps.get(bytes.fromhex(instruction["discriminator"]), ())
            for leg in legs:
                assert leg.pool is not None
                assert instruction["accounts"][leg.pool] in pools, (program.name, instruction)
                compared += 1
    assert compared >= 25
