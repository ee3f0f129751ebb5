"""Which modules are mutated, and which tests must notice, the fastest first."""

from typing import Final

CREDITS: Final = (
    "core/credits",
    "contract/test_credit_ledger.py",
    "edges/storage/test_money_file.py",
    "spec/test_credit_history.py",
    "edges/settlement/test_rotating.py",
    "spec/test_rotate.py",
)
PAYMENTS: Final = (
    "core/payments",
    "contract/test_payment_store.py",
    "edges/settlement",
)
ACCOUNTS: Final = (
    "core/accounts",
    "contract/test_account_store.py",
    "contract/test_outbox.py",
    "contract/test_outbox_batches.py",
    "edges/accounts",
    "edges/mail",
    "spec/test_exchange_secret.py",
)
# The acts of a thief end on pages: only their tests walk the whole way.
TAKEN_BACK: Final = (
    "edges/web/test_taking_back.py",
    "edges/web/test_account_pages.py",
    "edges/web/test_address_changes.py",
)
KEPT_ANSWERS: Final = ("edges/api/test_kept_answers.py", "spec/test_answers_given_again.py")
INDICATORS: Final = ("core/market",)
GUESSED: Final = ("core/secrets", "docs/test_example_secrets.py", "edges/storage/test_pepper.py")
NAMES: Final = ("core/market/test_shown_names.py", "core/market/test_look_alikes.py")
# These take minutes, and notice little that the others do not.
LEFT_OUT: Final = (
    "core/payments/test_crash_points.py",
    "edges/settlement/test_garbled_chain.py",
    "edges/accounts/test_account_machine.py",
    "edges/accounts/test_floods.py",
)

# The first that a module begins with counts.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    "base/limits.py": (
        "base/test_limits_together.py",
        "edges/server/test_client_address.py",
        "base/test_moving_window.py",
        "contract/test_limiters.py",
        "spec/test_limits.py",
        "spec/test_account_limits.py",
    ),
    "base/credentials.py": ("base/test_credentials.py", "edges/storage/test_pepper.py"),
    "core/credits/": CREDITS,
    "core/payments/trials.py": ("core/payments/test_trials.py",),
    "core/payments/": PAYMENTS,
    "core/accounts/people/taking_back.py": TAKEN_BACK,
    "core/accounts/people/address_change.py": (*TAKEN_BACK, *ACCOUNTS),
    "core/accounts/": ACCOUNTS,
    "edges/api/kept_answers.py": KEPT_ANSWERS,
    "core/market/engine/": INDICATORS,
    "core/secrets/": GUESSED,
    "core/market/listing/names.py": NAMES,
    "edges/api/data/cursor.py": ("edges/api/data/test_cursor.py",),
    "edges/server/write_budget.py": ("spec/test_write_budget.py",),
    "edges/storage/identity.py": ("edges/storage/test_identity.py",),
    "edges/webhooks/receivers.py": ("edges/webhooks/test_receivers.py",),
}


def tests_of(module: str) -> tuple[str, ...]:
    """Return the tests of *module*, a path below src/mintscope."""
    return next(tests for start, tests in TESTS.items() if module.startswith(start))
