"""Claims of `make prove` about costly work that a stranger or an account can cause repeatedly."""

from typing import Final

from prove.recipe import Mutant, Recipe

TRIALS: Final = "payments/trials.py"
TRIED: Final = "payments/test_trials.py"
TAKING: Final = "payments/test_taking.py"
PRICE: Final = "payments/price_cache.py"

FAILING_PAYMENTS: Final = Recipe(
    name="failing payments",
    proves="a flood of payments that come to nothing shuts out no buyer, and has a bound",
    tests=(
        TRIED,
        TAKING,
        "spec/test_restored_payments.py",
        "site/test_buying_pages.py",
        "contract/test_payment_store.py",
    ),
    mutants=(
        Mutant(
            "a network may use up a minute",
            TRIALS,
            "common: Windows = [(self._network, networks_of(address).near), (self._all, ALL)]",
            "common: Windows = [(self._all, ALL)]",
            (TRIED,),
        ),
        Mutant(
            "all together have no bound",
            TRIALS,
            "common: Windows = [(self._network, networks_of(address).near), (self._all, ALL)]",
            "common: Windows = [(self._network, networks_of(address).near)]",
            (TRIED,),
        ),
        Mutant(
            "nothing is kept for buyers",
            TRIALS,
            'found.append([(self._buyer, f"wallet {payer}"), (self._of_buyers, ALL)])',
            "pass",
            (TRIED, TAKING),
        ),
        Mutant(
            "nothing is kept for those who come for the first time",
            TRIALS,
            "found.append([(self._other, near), (self._region, wide), (self._of_others, ALL)])",
            "pass",
            (TRIED,),
        ),
        Mutant(
            "what is kept is used up by one network",
            TRIALS,
            "found.append([(self._other, near), (self._region, wide), (self._of_others, ALL)])",
            "found.append([(self._region, wide), (self._of_others, ALL)])",
            (TRIED,),
        ),
        Mutant(
            "payments that succeed count",
            "payments/facilitator.py",
            "await counted.give_back()",
            "pass",
            (TAKING,),
        ),
        Mutant(
            "payments are written out without end",
            "payments/checkout.py",
            "if not await merchant.facilitator.may_try(address):",
            "if False:",
            ("site/test_buying_pages.py",),
        ),
        Mutant(
            "wallets that claim purchases ask the chain without end",
            "api/credits.py",
            "if not await merchant.facilitator.may_try(address, claim.wallet):",
            "if False:",
            ("spec/test_restored_payments.py",),
        ),
    ),
)

READS: Final = Recipe(
    name="questions to nodes",
    proves="however many quotes and pages ask, prices and backfills request a node so often",
    tests=("payments/test_price.py", "history/test_paced_node.py"),
    mutants=(
        Mutant(
            "each quote asks for the price",
            PRICE,
            "if now_s >= self._read_again_s or self._has_stepped():",
            "if True:",
            ("payments/test_price.py",),
        ),
        Mutant(
            "backfills are read as fast as the node answers",
            "history/source.py",
            "if start_s > now_s:",
            "if False:",
            ("history/test_paced_node.py",),
        ),
    ),
)

LETTERS: Final = Recipe(
    name="e-mails",
    proves="no account and no stranger has more e-mails written than there may be",
    tests=(
        "accounts/test_account_bounds.py",
        "accounts/mail/test_delivery.py",
        "spec/test_write_budget.py",
        "contract/test_outbox_batches.py",
        "alerts/test_alert_floods.py",
    ),
    mutants=(
        Mutant(
            "an account gets an e-mail for each alert",
            "alerts/emails.py",
            "if len(written) + kept_free < bounds.day_max:",
            "if True:",
            ("spec/test_write_budget.py",),
        ),
        Mutant(
            "an alert that floods silences another one",
            "alerts/emails.py",
            "kept_free = _silent(rows, signal, written) if own else 0",
            "kept_free = 0",
            ("alerts/test_alert_floods.py",),
        ),
        Mutant(
            "an alert has every e-mail of its account",
            "alerts/emails.py",
            "if len(own) >= bounds.of_alert_max:",
            "if False:",
            ("alerts/test_alert_floods.py",),
        ),
        Mutant(
            "an address that is not verified is flooded",
            "accounts/mail/store.py",
            "return len(self.written_to(owner.email, kind, UnixMs(at - DAY_MS))) < UNVERIFIED_MAX",
            "return True",
            ("accounts/test_account_bounds.py",),
        ),
        Mutant(
            "anyone has any number written to an address",
            "accounts/mail/email.py",
            "return await take_all(self._counted(key, site)) is None",
            "return True",
            ("contract/test_outbox_batches.py",),
        ),
        Mutant(
            "a site asks for links to any number of addresses",
            "accounts/mail/email.py",
            "return windows if site is None else [*windows, (self._of_site, site)]",
            "return windows",
            ("accounts/test_guessing.py",),
        ),
        Mutant(
            "links of addresses without an account are kept",
            "accounts/mail/store.py",
            "delete_part(self._db, OF_STRANGERS, PURGE_PROOF, now, limit),",
            "False,",
            ("contract/test_account_store.py",),
        ),
        Mutant(
            "a process hands over as many as there are",
            "accounts/mail/delivery.py",
            "return min(AT_ONCE, self.per_hour_max - len(tried))",
            "return AT_ONCE",
            ("accounts/mail/test_delivery.py",),
        ),
    ),
)

QUEUE: Final = "contract/test_webhook_queue.py"
SENDER: Final = "alerts/test_sender.py"
ROWS: Final = Recipe(
    name="rows of accounts",
    proves="what an account leaves behind is bounded: changes, firings, webhooks",
    tests=(
        "spec/test_write_budget.py",
        "accounts/test_key_limits.py",
        "alerts/test_watcher.py",
        "contract/test_signal_rows.py",
        QUEUE,
        SENDER,
    ),
    mutants=(
        Mutant(
            "forms are not counted",
            "site/endpoints.py",
            'await self.writes.spend(session.user.user_id, "page")',
            "pass",
            ("accounts/test_key_limits.py",),
        ),
        Mutant(
            "caps of keys are not counted",
            "accounts/keys/key_gate.py",
            "if scope.is_write and not moves_credits:",
            'if scope.is_write and not moves_credits and scope != "trade:write":',
            ("spec/test_write_budget.py",),
        ),
        Mutant(
            "credits are moved to and fro without end",
            "accounts/wallets/api.py",
            'await self.deposits.pass_through(request, f"user {holder.key.user_id}")',
            "pass",
            ("spec/test_account_credits.py",),
        ),
        Mutant(
            "one account uses up the changes of all",
            "kit/http/rate_limit.py",
            "verdict = await take_all([(self._account, user_id), (self._all, ALL)])",
            "verdict = await take_all([(self._all, ALL)])",
            ("spec/test_write_budget.py",),
        ),
        Mutant(
            "all accounts together have no bound",
            "kit/http/rate_limit.py",
            "verdict = await take_all([(self._account, user_id), (self._all, ALL)])",
            "verdict = await take_all([(self._account, user_id)])",
            ("spec/test_write_budget.py",),
        ),
        Mutant(
            "every firing is kept",
            "alerts/store.py",
            "self._db.executemany(TRIM, [(number, kept_max) for number in found])",
            "pass",
            ("contract/test_signal_rows.py",),
        ),
        Mutant(
            "every webhook waits",
            "alerts/deliveries.py",
            "return rows.drop_oldest(numbers, self.waiting_max, now, reason)",
            "return 0",
            (SENDER,),
        ),
    ),
)

RECIPES: Final = (FAILING_PAYMENTS, READS, LETTERS, ROWS)
