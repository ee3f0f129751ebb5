"""The table of programs: its ids and the first bytes of their instructions."""

import hashlib
import json
from pathlib import Path

from mintscope.core.dex.programs import TABLE
from support.scenes.made_transactions import unb58

# Names of Anchor instructions; their first bytes are a hash of the name.
ANCHOR = {
    "pumpfun": (
        "buy sell buy_exact_sol_in buy_v2 sell_v2 buy_exact_quote_in_v2 "
        "buy_v3 sell_v3 buy_exact_quote_in_v3"
    ),
    "pumpswap": "buy sell buy_exact_quote_in",
    "raydium_cpmm": "swap_base_input swap_base_output",
    "raydium_clmm": "swap swap_v2 swap_router_base_in",
    "raydium_launchlab": "buy_exact_in buy_exact_out sell_exact_in sell_exact_out",
    "orca_whirlpool": "swap swap_v2 two_hop_swap two_hop_swap_v2",
    "meteora_dlmm": (
        "swap swap2 swap_exact_out swap_exact_out2 swap_with_price_impact swap_with_price_impact2"
    ),
    "meteora_damm_v1": "swap",
    "meteora_damm_v2": "swap swap2",
    "meteora_dbc": "swap swap2 swap2_with_transfer_hook",
    "lifinity_v2": "swap",
    "pancake_clmm": "swap swap_v2",
    "byreal_clmm": "swap swap_v2",
    "invariant": "swap",
    "jupiter_rfq": "fill",
}
# Programs without Anchor number their instructions.
NUMBERED = {"raydium_v4": {9, 11, 16, 17}, "phoenix": {0}, "saber": {1}}
UNPUBLISHED = {
    "solfi",
    "solfi_v2",
    "humidifi",
    "zerofi",
    "goonfi",
    "obric_v2",
    "tessera",
    "unnamed_amm",
    "bisonfi",
    "goonfi_v2",
    "alphaq",
    "scorch",
    "scorch_v2",
    "quantum",
    "manifest",
    "defituna",
    "saros_dlmm",
}
ROUTERS = {
    *("jupiter_v6", "jupiter_dca", "jupiter_limit", "jupiter_limit_v2", "photon_router"),
    *("okx_router", "okx_router_v2", "raydium_route", "dflow"),
    *("axiom", "term9", "titan", "gmgn"),
}


def test_ids_are_addresses_and_names_are_given_once() -> None:
    assert all(len(unb58(program.address)) == 32 for program in TABLE)
    assert len({program.address for program in TABLE}) == len(TABLE)
    assert len({program.name for program in TABLE}) == len(TABLE)


def test_first_bytes_are_those_of_the_instruction_names() -> None:
    for program in TABLE:
        heads = set(program.swaps)
        if program.name in ANCHOR:
            names = ANCHOR[program.name].split()
            assert heads == {hashlib.sha256(f"global:{n}".encode()).digest()[:8] for n in names}
        elif program.name in NUMBERED:
            assert heads == {bytes([number]) for number in NUMBERED[program.name]}
        elif program.name in UNPUBLISHED:
            assert heads == {b""}
        else:
            assert program.name in ROUTERS
            assert (heads, program.read) == (set(), None)


def test_accounts_stand_where_the_published_layouts_say(shared_data: Path) -> None:
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
