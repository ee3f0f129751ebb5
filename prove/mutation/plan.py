"""For mutation testing: the modules to mutate, and the tests of each, the fastest first."""

from typing import Final

CREDITS: Final = (
    "credits",
    "contract/test_credit_ledger.py",
    "stores/test_money_file.py",
    "spec/test_credit_history.py",
    "payments/chain/test_rotating.py",
    "spec/test_rotate.py",
)
PAYMENTS: Final = (
    "payments",
    "contract/test_payment_store.py",
    "payments/chain",
)
ACCOUNTS: Final = (
    "accounts",
    "contract/test_account_store.py",
    "contract/test_outbox.py",
    "contract/test_outbox_batches.py",
    "accounts",
    "accounts/mail",
    "spec/test_exchange_secret.py",
)
# Only tests of pages cover the recovery after a theft completely.
TAKEN_BACK: Final = (
    "accounts/test_taking_back.py",
    "accounts/test_account_pages.py",
    "accounts/test_address_changes.py",
)
KEPT_ANSWERS: Final = ("api/test_kept_answers.py", "spec/test_answers_given_again.py")
INDICATORS: Final = ("market",)
GUESSED: Final = ("kit", "docs/test_example_secrets.py", "stores/test_pepper.py")
NAMES: Final = ("market/test_shown_names.py", "market/test_look_alikes.py")
# These tests take minutes, and find little that the other tests do not.
LEFT_OUT: Final = (
    "payments/test_crash_points.py",
    "payments/chain/test_garbled_chain.py",
    "accounts/test_account_machine.py",
    "accounts/test_floods.py",
)

# The first row with a prefix of the module counts.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    "kit/limits.py": (
        "kit/test_limits_together.py",
        "kit/http/test_client_address.py",
        "kit/test_moving_window.py",
        "contract/test_limiters.py",
        "spec/test_limits.py",
        "spec/test_account_limits.py",
    ),
    "kit/credentials.py": ("kit/test_credentials.py", *GUESSED),
    "credits/": CREDITS,
    "payments/trials.py": ("payments/test_trials.py",),
    "payments/": PAYMENTS,
    "accounts/sessions.py": TAKEN_BACK,
    "accounts/changes.py": (*TAKEN_BACK, *ACCOUNTS),
    "accounts/": ACCOUNTS,
    "api/gate.py": KEPT_ANSWERS,
    "market/engine/": INDICATORS,
    "market/screening/look_alikes.py": NAMES,
    "api/wire.py": ("api/data/test_cursor.py",),
    "kit/http/rate_limit.py": ("spec/test_write_budget.py",),
    "kit/sql/identity.py": ("stores/test_identity.py", "app/cli/test_backup_command.py"),
    "alerts/webhooks.py": ("alerts/test_receivers.py",),
}


def tests_of(module: str) -> tuple[str, ...]:
    """Return the paths of the tests that are run against mutants of *module*.

    module   its path below src/mintscope
    """
    return next(tests for start, tests in TESTS.items() if module.startswith(start))
