"""A plugin of pytest for `make quick`: the option `--quick` leaves out tests that take long."""

from pathlib import Path
from typing import Final

import pytest

from support.engines import engine_counts
from support.order import LONG_S

TESTS: Final = Path(__file__).resolve().parents[1]
FOLDERS_LEFT_OUT: Final = {"e2e", "browser"}
MARKS_LEFT_OUT: Final = ("process", "browser", "storm")
ENGINE_LEFT_OUT: Final = "postgresql"
# Files that need PostgreSQL, start processes, or take 30 ms of a processor a test, on average:
# by folder, without the "test_" of their names.
SLOW: Final = {
    "accounts/mail": "delivery",
    "accounts/store": "account_crashes all_or_nothing claims clocks",
    "accounts": (
        "account_pages address_changes api_key_lives api_key_pages audit_log entry_pages floods "
        "key_limits link_pages passkey_answers passkey_sign_in passwords retries "
        "second_factor_pages session_lives taking_back web_sessions"
    ),
    "alerts": "alert_floods alert_pages killed_flood post rule sender telegram tracks watcher",
    "api": "indistinguishable_credentials",
    "app/cli": (
        "accounts backup_command children credits export life_of_a_process listing mcp_command "
        "payments_command sales secrets_command surfaces waiting_upgrade"
    ),
    "app/doctor": "doctor",
    "app": "every_route_has_a_limit limits_in_a_store list_worker tracing wheel",
    "client": "buying garbled_answers own_facts remembering signing_in what_leaves wire",
    "contract": (
        "audit_walk cleared_mints credits_of_users debit_ledger forgotten_mints limiters "
        "list_reader list_snapshots series_reader transaction_forms"
    ),
    "deploy": (
        "caddy_running caddyfile image licences missed_alert rules_by_promtool stock_proxies "
        "websocket_proxies"
    ),
    "devchain": (
        "decoder_reads_devchain devchain_blockstore devchain_past devchain_rpc devchain_shapes "
        "devchain_story peer_reads_it vm_clients vm_market"
    ),
    "dex": "base58 every_venue no_exchanges token_batches",
    "docs": (
        "alert_guide budget buying_page descriptions glossary install_advice names recipes traces"
    ),
    "history": "backfill_from_node never_given",
    "ingest": "final_fold ingest_pace read_ahead two_folds venues",
    "kit/http": "lost_connections streams websocket_bytes",
    "kit": "memory third_party_parsers",
    "market/follow": "kept_chunks list_lag",
    "market/screening": (
        "backtested_conditions crossings_within screen_of_many screened_rows swings "
        "traders_of_lists"
    ),
    "market": (
        "asked_frames excluded_volume name_index pool_book_of_launches price_basis price_rules "
        "server_sent sol_rate standing standing_definition traders trading_facts volume_profile "
        "volumes_add_up"
    ),
    "payments/chain": (
        "audit_doubts auditing levels orphans payment_search_on_chain rotated_roots rotating "
        "settling"
    ),
    "payments": "payment_maintenance token_market trials",
    "site/figures": "chart",
    "site/live": "open_pages",
    "site": (
        "admin_pages administrator_in_flight backfill_pages buying_pages deposit_form docs_pages "
        "escaping first_page forms_keep_text forms_refused front_page header_search mailbox_page "
        "numbers_in_forms operation_pages page_failures page_headers page_table payment_pages "
        "redirects status_page tokens_page"
    ),
    "site/token": (
        "backtest_page live_pages look_alike_pages pictures same_numbers token_page "
        "untracked_page views"
    ),
    "solana/geyser": "banks stream_wire",
    "solana": "arrivals finality_levels garbled_node poll random_orders",
    "spec": (
        "account_credits account_limits account_wallets agent_by_mcp agent_from_text "
        "alert_emails answers_given_again backtest backtest_of_tokens blockhash_ages "
        "broken_conversations bytes_of_candles bytes_of_swaps candle_tables confident_prices "
        "dead_credentials discovery fee_economics get_indicators groups hostile_numbers "
        "key_purchase keys_pay levels_of_nodes limits lost_answers mcp_payments mcp_results "
        "mcp_tools memo_variations openapi openapi_caching own_key own_memos past_prices "
        "past_reports paused_sales pay_per_request payment_attacks payment_limits "
        "payment_metrics purchase refused_payments report_frames restored_pages "
        "restored_payments rotate scopes sign_in_with_x signals signed_receipts token_pools "
        "token_traders usdc write_budget"
    ),
    "stores": (
        "ageing_plans audit_mark copying debits_share_no_lock doubted_commits file_shrinks "
        "first_opening frozen_postgres frozen_store ingest_lock left_behind_debits limit_stores "
        "long_migrations market_notices minutes_crashed old_data_dir old_states "
        "postgres_connection replicas shared_limits shared_price statements subquery_aliases "
        "upgrades_of_main"
    ),
    "watchlists": "watchlist_pages",
}
SLOW_PATHS: Final = {
    f"{folder}/test_{name}.py" for folder, names in SLOW.items() for name in names.split()
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that leaves out what takes long."""
    parser.addoption("--quick", action="store_true", help="leave out what takes long")


def pytest_configure(config: pytest.Config) -> None:
    """Raise UsageError for a file that is said to be slow and is not there."""
    gone = [each for each in sorted(SLOW_PATHS) if not (TESTS / each).exists()]
    if gone and config.getoption("quick"):
        raise pytest.UsageError(f"expected the files of SLOW; there is no {gone[0]}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole files, which are not even imported."""
    if not config.getoption("quick") or not collection_path.is_relative_to(TESTS):
        return None
    path = collection_path.relative_to(TESTS).as_posix()
    return path in FOLDERS_LEFT_OUT or path in SLOW_PATHS or path in LONG_S or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the marks and the engine of a test say."""
    if config.getoption("quick"):
        left_out = {item for item in items if _is_left_out(item)}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])


def _is_left_out(item: pytest.Item) -> bool:
    if any(map(item.get_closest_marker, MARKS_LEFT_OUT)):
        return True
    return ENGINE_LEFT_OUT in engine_counts([item.nodeid])
