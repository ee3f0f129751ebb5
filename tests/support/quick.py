"""A pytest plugin for `make quick`: the option `--quick` leaves out slow tests."""

from pathlib import Path
from typing import Final

import pytest

from support.engines import engine_counts
from support.order import LONG_S

TESTS: Final = Path(__file__).resolve().parents[1]
FOLDERS_LEFT_OUT: Final = {"e2e", "browser"}
MARKS_LEFT_OUT: Final = ("process", "browser", "storm")
ENGINE_LEFT_OUT: Final = "postgresql"
# Files that need PostgreSQL, start processes, or take at least 20 ms of processor time for each
# test: by folder, without the prefix "test_" of their names.
SLOW: Final = {
    "accounts": (
        "account_pages address_changes api_key_lives api_key_pages audit_log entry_pages floods "
        "key_limits link_pages passkey_answers passkey_sign_in passwords people_rules retries "
        "second_factor_pages session_lives takeover taking_back unproven_addresses web_sessions"
    ),
    "accounts/mail": "delivery",
    "accounts/store": "account_crashes all_or_nothing claims clocks",
    "alerts": "alert_floods alert_pages killed_flood post rule sender telegram tracks watcher",
    "api": "indistinguishable_credentials kept_answers",
    "app": "every_route_has_a_limit limits_in_a_store list_worker ready_to_sell site tracing wheel",
    "app/cli": (
        "accounts backup_command children credits export indicators life_of_a_process listing "
        "mcp_command out_of_service payments_command sales secrets_command surfaces "
        "waiting_upgrade"
    ),
    "app/doctor": "doctor doctor_of_coverage",
    "client": (
        "both_clients buying garbled_answers lost_answers_of_credits own_facts reading_commands "
        "remembering signing_in streaming_by_socket what_leaves wire"
    ),
    "contract": (
        "audit_walk cleared_mints credit_ledger credits_of_users debit_ledger forgotten_mints "
        "history_asks imports limiters list_reader list_snapshots mail_transport outbox_batches "
        "payment_chain series_reader transaction_forms volume_of_before"
    ),
    "deploy": (
        "caddy_running caddyfile image licences missed_alert rules_by_promtool stock_proxies "
        "websocket_proxies"
    ),
    "devchain": (
        "decoder_reads_devchain devchain_blockstore devchain_past devchain_rpc devchain_shapes "
        "devchain_story peer_reads_it quick_machines vm_cli vm_clients vm_market"
    ),
    "dex": "base58 bytes every_venue no_exchanges token_batches",
    "docs": (
        "alert_guide budget buying_page descriptions glossary install_advice names recipes traces"
    ),
    "history": "backfill_from_node backfill_queue joined_volume never_given",
    "ingest": "final_fold ingest_pace read_ahead two_folds venues",
    "kit": "credentials memory metrics moving_window third_party_parsers",
    "kit/http": "lost_connections streams websocket_bytes",
    "market": (
        "asked_frames excluded_volume name_index pool_book_of_launches pools_now price_basis "
        "price_rules round_trips server_sent sol_rate standing standing_definition traders "
        "trading_facts volume_profile volumes_add_up"
    ),
    "market/follow": "kept_chunks list_lag",
    "market/screening": (
        "backtested_conditions crossings_within screen_of_many screened_rows swings "
        "traders_of_lists"
    ),
    "payments": "payment_maintenance token_market trials",
    "payments/chain": (
        "audit_doubts auditing levels orphans payment_search_on_chain rotated_roots rotating "
        "settling"
    ),
    "site": (
        "admin_pages administrator_in_flight backfill_pages buying_pages deposit_form docs_pages "
        "emails_lead_somewhere escaping first_page forms_keep_text forms_refused front_page "
        "header_search mailbox_page numbers_in_forms operation_pages page_failures page_headers "
        "page_table payment_pages poisoned_emails redirects status_page tokens_page"
    ),
    "site/figures": "chart sparkline",
    "site/live": "open_pages",
    "site/token": (
        "backtest_page live_pages look_alike_pages pictures same_numbers token_page "
        "untracked_page views"
    ),
    "solana": "arrivals beside_delivery finality_levels garbled_node poll random_orders",
    "solana/geyser": "banks stream_wire",
    "spec": (
        "account_credits account_limits account_wallets agent_by_mcp agent_from_text "
        "alert_emails answers_given_again application_status backtest backtest_of_tokens "
        "blockhash_ages both_ways broken_conversations bytes_of_candles bytes_of_swaps "
        "candle_tables candles confident_prices confirm_email credit_history dead_credentials "
        "demo_answers discovery exchange_secret fee_economics get_indicators grafana_source "
        "groups hostile_numbers idle_tokens key_purchase keys_pay levels_of_nodes limits "
        "list_bundles list_tokens lost_answers mcp_payments mcp_results mcp_tools me "
        "memo_variations mpp openapi openapi_caching own_key own_memos past_prices past_reports "
        "paused_sales pay_per_request payment_attacks payment_limits payment_metrics purchase "
        "refused_payments report_frames report_options restored_pages restored_payments rotate "
        "scopes screen sign_in_with_x signals signed_receipts stream token_holders token_pools "
        "token_traders trial unchanged_reports usdc websocket write_budget"
    ),
    "stores": (
        "ageing_plans audit_mark copying debits_share_no_lock doubted_commits file_shrinks "
        "first_opening frozen_postgres frozen_store ingest_lock left_behind_debits limit_stores "
        "long_migrations market_notices minutes_crashed old_data_dir "
        "postgres_connection replicas shared_limits shared_price statements subquery_aliases "
        "upgrades_of_main"
    ),
    "watchlists": "watchlist_pages",
}
SLOW_PATHS: Final = {
    f"{folder}/test_{name}.py" for folder, names in SLOW.items() for name in names.split()
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--quick`."""
    parser.addoption("--quick", action="store_true", help="leave out what takes long")


def pytest_configure() -> None:
    """Raise UsageError if a file listed as slow does not exist, even without `--quick`."""
    gone = [each for each in sorted(SLOW_PATHS) if not (TESTS / each).exists()]
    if gone:
        raise pytest.UsageError(f"expected the files of SLOW; there is no {gone[0]}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip slow files without importing them."""
    if not config.getoption("quick") or not collection_path.is_relative_to(TESTS):
        return None
    path = collection_path.relative_to(TESTS).as_posix()
    return path in FOLDERS_LEFT_OUT or path in SLOW_PATHS or path in LONG_S or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests by their marks and engine."""
    if config.getoption("quick"):
        left_out = {item for item in items if _is_left_out(item)}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])


def _is_left_out(item: pytest.Item) -> bool:
    if any(map(item.get_closest_marker, MARKS_LEFT_OUT)):
        return True
    return ENGINE_LEFT_OUT in engine_counts([item.nodeid])
