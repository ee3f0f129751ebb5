"""Claims of `make prove` about payments and credits: kills, full disks, races, forks and others."""

from typing import Final

from prove.recipe import Mutant, Recipe

STATES: Final = "payments/payment.py"
FACILITATOR: Final = "payments/facilitator.py"
CONNECTION: Final = "kit/sql/sqlite.py"

KILLS: Final = Recipe(
    name="kills",
    proves="kill -9 at any moment loses no payment, no debit, no answer and no e-mail",
    tests=(
        "e2e/test_payment_storm.py::test_no_payment_is_lost_to_kill_9",
        "e2e/test_debit_storm.py::test_no_answered_debit_is_lost_to_kill_9",
        "e2e/test_account_storm.py::test_no_answer_to_an_agent_is_lost_to_kill_9",
        "e2e/test_payment_kills.py",
    ),
    mistakes=(
        "e2e/test_payment_storm.py::test_the_storm_finds_a_mistake",
        "e2e/test_debit_storm.py::test_the_storm_finds_a_ledger_that_answers_before_it_commits",
        "e2e/test_account_storm.py::test_the_storm_finds_an_email_written_afterwards",
    ),
)
FREEZES: Final = Recipe(
    name="freezes",
    proves="a frozen database or a frozen service sells nothing twice and loses nothing",
    tests=(
        "stores/test_frozen_store.py",
        "e2e/test_payments.py::test_a_frozen_service_loses_no_payment",
        "e2e/test_payment_disk.py::test_a_locked_file_loses_no_payment",
    ),
    mutants=(
        Mutant(
            "a store that does not answer counts as a sale",
            FACILITATOR,
            "return payment  # the store has not confirmed the outcome",
            "return apply(payment, evidence)",
            ("stores/test_frozen_store.py",),
        ),
    ),
)
DISK: Final = Recipe(
    name="full disk",
    proves="on a full disk nothing is sold or charged, and it heals by itself",
    tests=(
        "e2e/test_payment_disk.py::test_a_full_disk_stops_sales_until_it_has_room_again",
        "stores/test_money_file.py::test_a_full_disk_is_503_for_every_waiter_and_charges_nothing",
    ),
    mutants=(
        Mutant(
            "the probe of readiness writes nothing",
            "credits/store.py",
            "await self._group.run(self._expect_writable)",
            "return",
        ),
    ),
)
FLUSHES: Final = Recipe(
    name="flush audit",
    proves="no answer leaves before what it says is on the disk",
    tests=(
        "e2e/test_debit_storm.py::test_every_answer_waits_for_the_disk",
        "e2e/test_payment_disk.py::test_every_sale_waits_for_the_disk_twice",
    ),
    mistakes=(
        "e2e/test_debit_storm.py::test_the_trace_finds_a_ledger_that_does_not_flush",
        "e2e/test_payment_disk.py::test_the_trace_finds_a_store_that_does_not_flush",
    ),
    mutants=(
        Mutant(
            "commits that a loss of power undoes",
            CONNECTION,
            'db.execute("PRAGMA synchronous = FULL")',
            'db.execute("PRAGMA synchronous = NORMAL")',
        ),
    ),
)
RACES: Final = Recipe(
    name="races",
    proves="the last credit, one payment and one secret are given once, for any order of requests",
    tests=(
        "e2e/test_last_credit.py::test_two_servers_over_one_store_share_the_last_credit",
        "e2e/test_payments.py::test_a_payment_sent_a_hundred_times_is_issued_once",
        "e2e/test_payments.py::test_four_processes_settle_one_payment_once",
        "e2e/test_payments.py::test_one_of_twenty_payments_with_funds_for_one_is_served",
        "e2e/test_exchange_race.py::test_a_thousand_exchanges_of_one_secret_give_one_key",
        "e2e/test_exchange_race_http.py",
    ),
    mistakes=(
        "e2e/test_last_credit.py::test_the_race_finds_a_ledger_that_selects_then_updates",
        "e2e/test_exchange_race.py::test_the_race_finds_an_exchange_that_selects_then_updates",
    ),
)
CRASH_POINTS: Final = Recipe(
    name="crash points",
    proves="of every schedule of handler, reconciler and crash, none loses or doubles a payment",
    tests=(
        "payments/test_crash_points.py::test_no_schedule_loses_or_doubles_a_payment",
        "payments/test_crash_points.py::test_no_schedule_gives_a_false_alarm_or_hides_a_true_alarm",
        "payments/test_payment.py",
    ),
    mistakes=(
        "payments/test_crash_points.py::test_every_mutant_is_caught",
        "payments/test_crash_points.py::test_every_mutant_of_the_auditor_is_caught",
    ),
    mutants=(
        Mutant(
            "landing does not win over a failure",
            STATES,
            "return payment if payment.state is State.ISSUED else replace(payment, final=False)",
            "return payment",
        ),
        Mutant(
            "less than was agreed is enough",
            STATES,
            "if landed.paid < payment.amount:",
            "if landed.paid < payment.amount // 2:",
        ),
    ),
)
CHAIN_FAULTS: Final = Recipe(
    name="chain faults",
    proves=(
        "whatever a node or a chain does, today's or the older one, a payment ends once, soon after"
        " its blockhash or the lease of its handler"
    ),
    tests=("spec/test_chain_faults.py", "spec/test_lost_answers.py"),
    mutants=(
        Mutant(
            "a lost answer to the broadcast is a failure",
            FACILITATOR,
            "with suppress(ports.ChainUnavailable):",
            "with suppress(KeyError):",
        ),
        Mutant(
            "not seen for now is dead",
            STATES,
            "case Unseen(height=height) if height > payment.last_valid_height:",
            "case Unseen(height=height):",
        ),
        Mutant(
            "an answer is given again without its key",
            FACILITATOR,
            "or not self.secrets.holds(key, payment.payer, payment.key_hash)",
            "or False",
        ),
    ),
)
BLOCKHASHES: Final = Recipe(
    name="blockhash ages",
    proves="at 100 to 800 ms a slot a payment lives as long as its blockhash, and not a block more",
    tests=("spec/test_blockhash_ages.py", "payments/chain/test_levels.py"),
    mutants=(
        Mutant(
            "an unknown blockhash always means a node behind",
            "payments/settlement.py",
            "if tried.slot >= level + AHEAD_SLOTS and named is None:",
            "if False:",
        ),
        Mutant(
            "a node that lags is believed",
            "payments/settlement.py",
            "if tried.slot >= level + AHEAD_SLOTS and named is None:",
            "if True:",
        ),
        Mutant(
            "a payment is dead in the last block that may hold it",
            STATES,
            "case Unseen(height=height) if height > payment.last_valid_height:",
            "case Unseen(height=height) if height >= payment.last_valid_height:",
        ),
    ),
)
FORGERIES: Final = Recipe(
    name="forged payments",
    proves="no payment passes that differs from what was quoted, in any field or byte",
    tests=(
        "payments/test_verify.py",
        "payments/test_headers.py",
        "payments/test_memo.py",
        "spec/test_payment_attacks.py",
    ),
    mutants=(
        Mutant(
            "the signature of the payer is not checked",
            "payments/protocol/verify.py",
            "if not envelope.is_signed_by_payer():",
            "if False:",
        ),
    ),
)
MEMOS: Final = Recipe(
    name="memos",
    proves=(
        "of 100,000 payments without a memo, with one of the client's own, replayed and crossed,"
        " none buys twice and none is paid without its answer"
    ),
    tests=("spec/test_memo_variations.py", "spec/test_own_memos.py"),
    mutants=(
        Mutant(
            "one quote takes two payments",
            "payments/store/purchases.py",
            "if self._db.execute(QUOTE_IS_USED, (pending.quote,)).get:",
            "if False:",
        ),
        Mutant(
            "a quote is good for all of its kind",
            "payments/protocol/memo.py",
            "return of_kind + _mac(key, head, [resource, *bound])[: _MAC_BYTES - _KIND_MAC_BYTES]",
            "return of_kind",
        ),
        Mutant(
            "the amount is whatever was transferred",
            "payments/protocol/verify.py",
            "if amount != asked.amount:",
            "if False:",
        ),
        Mutant(
            "two memos are as good as one",
            "payments/protocol/verify.py",
            "if len(memos) > 1:",
            "if False:",
        ),
    ),
)

RECIPES: Final = (
    MEMOS,
    KILLS,
    FREEZES,
    DISK,
    FLUSHES,
    RACES,
    CRASH_POINTS,
    CHAIN_FAULTS,
    BLOCKHASHES,
    FORGERIES,
)
