"""The table of programs: its ids and the first bytes of their instructions."""

import hashlib
import json
from pathlib import Path

from mintscope.dex.programs import TABLE
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
    "byreal_clmm": "swap swap_v2 swap_v3_dyn",
    "invariant": "swap",
    "jupiter_rfq": "fill",
    "jupiter_rfq_second": "fill",
    "jupiter_lend": "swap_in swap_out",
    "kipseli": "swap_v3",
    "denali": "swap_exact_in",
    "metadao": "spot_swap",
    "omnipair": "swap",
    "runner_rodeo": "swap",
    "jupiter_perps": "swap2",
    "openbook_v2": "place_take_order",
    "boop": "buy_token sell_token",
    "aldrin": "swap",
    "aldrin_v2": "swap",
    "stabble": "swap swap_v2",
    "stabble_weighted": "swap swap_v2",
    "cropper": "swap",
    "crema": "swap swap_with_partner",
    "guacswap": "swap",
    "bonkswap": "swap",
    "trench": "buy buy_exact_out sell",
    "moonit": "buy sell buy_with_be_authority",
    "virtuals": "buy sell",
    "heaven": "buy sell",
}
# Programs without Anchor number their instructions.
NUMBERED: dict[str, set[int]] = {
    "raydium_v4": {9, 11, 16, 17},
    "phoenix": {0},
    "saber": {1},
    "scorch": {1, 2},
    "manifest": {4, 6, 13},
    "deriverse": {26},
    "flux": {3},
    "riptide": {2},
    "obsidian": {1},
    "gavel": {0},
    "saros_amm": {1},
    "fluxbeam": {1},
    "orca_v1": {1},
    "orca_v2": {1},
    "dexlab": {1},
    "dooar": {1},
    "penguin": {1},
    "token_swap": {1},
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
        heads = set(program.swaps) - {b""}
        if program.name in ANCHOR:
            names = ANCHOR[program.name].split()
            assert heads == {hashlib.sha256(f"global:{n}".encode()).digest()[:8] for n in names}
        elif program.name in NUMBERED:
            assert heads == {bytes([number]) for number in NUMBERED[program.name]}
        elif program.name in ROUTERS:
            assert (program.swaps, program.read) == ({}, None)
        else:  # nothing is published of its instructions
            assert set(program.swaps) == {b""}


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
