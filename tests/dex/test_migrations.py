"""A migration names the pool that replaces a curve, in built and in recorded transactions."""

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mintscope.dex.programs import TABLE
from mintscope.solana.blocks import WSOL
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import Ix, Tx, address, checked

RECORDED: Final = (
    "2eCjkZEuwfbg6B2DngZk9tvk6miFfWhGcDXmQ4BWkPkik5MzjMfxFxBueLV2gV3S6Wad8KDX1a5URaYGxUWdGBtR"
)


class Layout(NamedTuple):
    """The first accounts of an Anchor instruction, by their published names."""

    program: str
    instruction: str
    accounts: str
    curve: str
    pool: str


PUMPFUN: Final = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
LAUNCHLAB: Final = "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj"
DBC: Final = "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN"
BOOP: Final = "boop8hVGQGqehUK2iVEMEnMrL5RbjywRzHKBmBE7ry4"
LAYOUTS: Final = (
    Layout(
        PUMPFUN,
        "migrate",
        "global withdraw_authority BASE bonding_curve associated_bonding_curve user system_program"
        " token_program pump_amm pool pool_authority",
        "bonding_curve",
        "pool",
    ),
    Layout(
        PUMPFUN,
        "migrate_v2",
        "global withdraw_authority BASE SOL bonding_curve associated_base_bonding_curve"
        " associated_quote_bonding_curve user system_program pump_amm pool pool_authority",
        "bonding_curve",
        "pool",
    ),
    Layout(
        LAUNCHLAB,
        "migrate_to_amm",
        "payer BASE SOL openbook_program market request_queue event_queue bids asks"
        " market_vault_signer market_base_vault market_quote_vault amm_program amm_pool"
        " amm_authority amm_open_orders amm_lp_mint amm_base_vault amm_quote_vault"
        " amm_target_orders amm_config amm_create_fee_destination authority pool_state"
        " global_config",
        "pool_state",
        "amm_pool",
    ),
    Layout(
        LAUNCHLAB,
        "migrate_to_cpswap",
        "payer BASE SOL platform_config cpswap_program cpswap_pool cpswap_authority cpswap_lp_mint"
        " cpswap_base_vault cpswap_quote_vault cpswap_config cpswap_create_pool_fee"
        " cpswap_observation lock_program lock_authority lock_lp_vault authority pool_state"
        " global_config",
        "pool_state",
        "cpswap_pool",
    ),
    Layout(
        DBC,
        "migrate_meteora_damm",
        "virtual_pool migration_metadata config pool_authority pool damm_config lp_mint BASE SOL"
        " a_vault b_vault",
        "virtual_pool",
        "pool",
    ),
    Layout(
        DBC,
        "migration_damm_v2",
        "virtual_pool migration_metadata config pool_authority pool first_position_nft_mint"
        " first_position_nft_account first_position second_position_nft_mint"
        " second_position_nft_account second_position damm_pool_authority amm_program BASE SOL"
        " token_a_vault token_b_vault",
        "virtual_pool",
        "pool",
    ),
    *(
        Layout(
            BOOP,
            "deposit_into_raydium",
            "config amm_config operator operator_wsol_account vault_authority authority pool_state"
            " token_0_vault token_1_vault bonding_curve_vault bonding_curve_wsol_vault"
            " token_program token_program_2022 system_program associated_token_program lp_mint"
            f" cpmm_program owner_lp_token bonding_curve {mints}",
            "bonding_curve",
            "pool_state",
        )
        for mints in ("SOL BASE", "BASE SOL")
    ),
)
BASE: Final = address("mint of a curve")


def migration(layout: Layout, *, cut: int = 0) -> Tx:
    """Return a migration of a curve, whose instruction lacks its last *cut* accounts."""
    words = {"BASE": BASE, "SOL": WSOL}
    accounts = [words.get(name, name) for name in layout.accounts.split()]
    head = hashlib.sha256(f"global:{layout.instruction}".encode()).digest()[:8]
    calls = [
        checked("left base", BASE, "new base", 10**12),
        checked("left sol", WSOL, "new sol", 85 * 10**9, 9),
    ]
    kept = accounts[: len(accounts) - cut]
    tx = Tx(Ix(layout.program, kept, head, calls))
    tx.holds("left base", BASE, "its owner", before=10**12)
    tx.holds("new base", BASE, "the pool's owner", after=10**12)
    tx.holds("left sol", WSOL, "its owner", 9, before=85 * 10**9)
    return tx.holds("new sol", WSOL, "the pool's owner", 9, after=85 * 10**9)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.instruction)
def test_a_migration_names_the_successor_of_its_curve(layout: Layout) -> None:
    decoded = decode_transaction(migration(layout).raw(), 7)

    (moved,) = decoded.migrations
    assert (moved.in_mint, moved.pool, moved.succeeds) == (
        BASE,
        address(layout.pool),
        address(layout.curve),
    )
    assert (moved.transaction_index, moved.outer, moved.in_amount) == (7, 0, 0)
    assert decoded.swaps == []


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.instruction)
def test_an_instruction_with_too_few_accounts_gives_no_migration(layout: Layout) -> None:
    names = layout.accounts.split()
    needed = [layout.curve, layout.pool, "BASE"]
    if layout.program == BOOP:
        needed.append("SOL")
    cut = len(names) - max(map(names.index, needed))

    assert list(decode_transaction(migration(layout, cut=cut).raw(), 0).migrations) == []


def test_another_instruction_of_a_curve_gives_no_migration() -> None:
    layout = LAYOUTS[0]._replace(instruction="set_params")
    assert list(decode_transaction(migration(layout).raw(), 0).migrations) == []


def test_the_recorded_migration_of_pumpfun_has_its_curve_and_pool(shared_data: Path) -> None:
    """The event in the transaction names the same curve and pool."""
    path = shared_data / "transactions_2026" / "tx" / f"{RECORDED}.json"
    if not path.is_file():
        pytest.skip(f"the recorded transaction is not there: {path}")
    decoded = decode_transaction(path.read_bytes(), 0)

    (moved,) = decoded.migrations
    assert (moved.program, moved.in_mint, moved.succeeds, moved.pool) == (
        "pumpfun",
        "HkRvV6TfbGDnhbAaXctBfc8yfqWignizwakktB1Dpump",
        "91a4C45CSe9n3SKXCRCZLaAznAfueTyGXSwbGQToRKxo",
        "HqDQGEqujcpYiGvdK6h6wydcWov8wam8ATayLtS5yPnv",
    )
    assert (decoded.swaps, decoded.quarantined) == ([], [])


def test_no_migration_has_the_first_bytes_of_another_known_instruction() -> None:
    """The decoder looks for migrations only in instructions that do not swap."""
    for program in TABLE:
        for head in program.migrations:
            known = program.swaps.keys() | program.no_swaps
            assert known.isdisjoint({head, head[:1]}), program.name
