"""The order in which `make test` runs the files of tests."""

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

# Test files that mostly wait for processes, a browser or time, with their duration in seconds
# on two cores while other tests run.
LONG_S: Final = {
    "history/test_mended_gap.py": 80,
    "docs/test_install_page.py": 80,
    "browser/test_every_page.py": 110,
    "e2e/test_schemathesis.py": 100,
    "e2e/test_demo.py": 95,
    "e2e/test_payment_storm.py": 80,
    "docs/test_commands.py": 60,
    "e2e/test_serve.py": 60,
    "browser/test_live_pages_in_browser.py": 55,
    "contract/test_closed_months.py": 45,
    "history/test_late_mint.py": 45,
    "payments/test_crash_points.py": 40,
    "e2e/test_signals_killed.py": 40,
    "history/test_killed_history.py": 40,
    "history/test_filled_gap.py": 40,
    "contract/test_payment_store.py": 35,
    "client/test_typescript.py": 35,
    "e2e/test_payments.py": 35,
    "docs/test_docs_programs.py": 30,
    "contract/test_past_reader.py": 30,
    "e2e/test_restore.py": 30,
    "e2e/test_past_of_a_recorded_run.py": 30,
    "e2e/test_supervision.py": 30,
    "e2e/test_hostile_account.py": 30,
    "browser/test_buying_in_browser.py": 30,
    "solana/test_geyser.py": 30,
    "app/test_kernels.py": 25,
    "docs/test_worked_examples.py": 25,
    "e2e/test_bought_prices.py": 25,
    "bench/test_flooded_service.py": 25,
    "contract/test_market_engines_agree.py": 20,
    "e2e/test_launch_prices.py": 20,
    "e2e/test_agent_signup.py": 20,
    "e2e/test_linters.py": 20,
    "e2e/test_move.py": 20,
    "e2e/test_replicas_mail.py": 20,
    "e2e/test_secret_hygiene.py": 20,
    "e2e/test_soak.py": 20,
    "browser/test_account_in_browser.py": 15,
    "browser/test_keys_in_browser.py": 15,
    "browser/test_people_in_browser.py": 15,
    "e2e/test_account_storm.py": 15,
    "e2e/test_directories.py": 15,
    "e2e/test_reload.py": 15,
    "bench/test_bench.py": 15,
    "devchain/test_devchain_market.py": 15,
    "ingest/test_ingest.py": 15,
    "spec/test_chain_faults.py": 15,
    "spec/test_conservation.py": 15,
    "accounts/test_account_machine.py": 10,
    "contract/test_fees_at_risk.py": 10,
}
WAITING_FOLDERS: Final = {"e2e", "browser"}
SHORT_S: Final = 5  # the assumed duration of each other file in WAITING_FOLDERS
# All waiting files start within this part of the run; after it, the other files keep all workers
# busy.
WITHIN: Final = 0.85


def due(tests: Mapping[str, int]) -> dict[str, float]:
    """Return the position of each file in a run, from 0 to 1.

    Files that wait are spread over the run, longest first; the distance to the next file is in
    proportion to the duration.  If all ran at the same time, a processor would be idle, and files
    that compute would compete for it later.

    tests   the number of tests of each file, by its path within the folder of tests
    """
    waiting_s = Counter({name: LONG_S.get(name, SHORT_S) for name in tests if _waits(name)})
    computing = {name: count for name, count in tests.items() if name not in waiting_s}
    return _spread(dict(waiting_s.most_common()), WITHIN) | _spread(computing, 1.0)


def _waits(name: str) -> bool:
    return name in LONG_S or name.partition("/")[0] in WAITING_FOLDERS


def _spread(sizes: Mapping[str, int], within: float) -> dict[str, float]:
    """Return the position of each file, so that all files together fill the run up to *within*."""
    before = accumulate(sizes.values(), initial=0)
    return {
        name: within * at / sum(sizes.values()) for name, at in zip(sizes, before, strict=False)
    }
