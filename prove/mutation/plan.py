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
    "spec/test_purchase.py",
    "spec/test_refused_payments.py",
    "spec/test_lost_answers.py",
    "edges/settlement",
)
ACCOUNTS: Final = (
    "core/accounts",
    "edges/accounts",
    "edges/mail",
    "edges/storage/accounts",
    "spec/test_beta_signup.py",
    "spec/test_exchange_secret.py",
    "edges/web",
)
INDICATORS: Final = ("core/market",)

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
    "core/payments/": PAYMENTS,
    "core/accounts/": ACCOUNTS,
    "core/market/engine/": INDICATORS,
}


def tests_of(module: str) -> tuple[str, ...]:
    """Return the tests of *module*, a path below src/mintscope."""
    return next(tests for start, tests in TESTS.items() if module.startswith(start))
