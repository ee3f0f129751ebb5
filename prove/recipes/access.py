"""Claims of `make prove` about limits, clocks and secrets, with their tests."""

from typing import Final

from prove.recipe import Mutant, Recipe

LIMITS: Final = "kit/limits.py"
BACK: Final = "accounts/sessions.py"
EVEN: Final = "kit/http/application.py"

WINDOWS: Final = Recipe(
    name="limits at window edges",
    proves="no window, wherever it begins, admits one request more than its limit",
    tests=(
        "kit/test_moving_window.py",
        "contract/test_limiters.py",
        "spec/test_limits.py",
        "spec/test_account_limits.py",
        "spec/test_payment_limits.py",
        "kit/http/test_client_address.py",
    ),
    mutants=(
        Mutant(
            "one request too many",
            LIMITS,
            "if len(admitted) >= self.limit.count:",
            "if len(admitted) > self.limit.count:",
        ),
        Mutant(
            "windows that begin at full minutes",
            LIMITS,
            "while admitted and now - admitted[0] >= window_s:",
            "while admitted and now // window_s != admitted[0] // window_s:",
        ),
        Mutant(
            "a client is what it says it is",
            "kit/http/request.py",
            "client = chain.pop()",
            "client = chain.pop(0)",
        ),
        Mutant(
            "each address of an IPv6 network has a limit of its own",
            LIMITS,
            "IPV6_PREFIX: Final = 64  # one customer's network, with any number of addresses",
            "IPV6_PREFIX: Final = 128",
        ),
    ),
)
CLOCKS: Final = Recipe(
    name="clock steps",
    proves="a wall clock that is set, or that the chain contradicts, sells and forgets nothing",
    tests=(
        "spec/test_limits.py::test_a_step_of_the_wall_clock_changes_nothing",
        "payments/test_price.py",
        "payments/chain/test_price_sources.py",
    ),
    mutants=(
        Mutant(
            "limits count on the wall clock",
            LIMITS,
            "now = self._clock.monotonic_s()",
            "now = self._clock.now() / 1000",
        ),
        Mutant(
            "a step of the clock goes unseen",
            "payments/price_cache.py",
            "return abs(self._wall_ahead_s() - self._ahead_s) > STEP_S_MAX",
            "return False",
        ),
    ),
)
TIMING: Final = Recipe(
    name="timing oracles",
    proves="unknown, wrong, waiting and used secrets cost and answer the same",
    tests=("kit/http/test_constant_time.py", "api/test_indistinguishable_credentials.py"),
    mutants=(
        Mutant("an answer leaves when it is done", EVEN, "if left_s > 0:", "if left_s > 3_600:"),
        Mutant(
            "the wait begins after the work",
            EVEN,
            "await asyncio.get_running_loop().run_in_executor(_THREADS, _sleep_until, due_s)",
            "await asyncio.get_running_loop().run_in_executor("
            "_THREADS, _sleep_until, time.perf_counter() + LEAST_S)",
        ),
    ),
)
SECRETS: Final = Recipe(
    name="secret hygiene",
    proves="no secret that a client holds is in a log, a file, a metric or the dump of a crash",
    tests=("e2e/test_secret_hygiene.py",),
    mutants=(
        Mutant(
            "the log shows every header",
            "kit/http/application.py",
            "route = await self._find(request)",
            'route = await self._find(request); log.info("request", headers=str(request.headers))',
            ("e2e/test_secret_hygiene.py::test_no_secret_is_written_anywhere",),
        ),
        Mutant(
            "a crash leaves a core file",
            "app/cli/app.py",
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
            "pass",
            ("e2e/test_secret_hygiene.py::test_a_crash_leaves_no_core_file",),
        ),
    ),
)
DELIVERIES: Final = "alerts/test_sender.py"
WORST: Final = "e2e/test_hostile_account.py"
HOSTILE: Final = Recipe(
    name="hostile account",
    proves="twenty alert rules and a receiver that accepts nothing slow no debit and fill no disk",
    tests=(WORST, DELIVERIES, "spec/test_write_budget.py"),
    mutants=(
        Mutant(
            "a rule that fails is tried again at once",
            "alerts/deliveries.py",
            "pause_ms = min(RETRY_MS_MIN << min(batch.failures, 16), RETRY_MS_MAX)",
            "pause_ms = 0",
            (DELIVERIES,),
        ),
        Mutant(
            "no host and no account has a share",
            "alerts/webhooks.py",
            "verdict = await take_all([(self._hosts, host), (self._accounts, user_id)])",
            "verdict = None",
            (DELIVERIES,),
        ),
        Mutant(
            "a rule fires at every crossing",
            "alerts/evaluation.py",
            "if number > self.firings_hour_max:",
            "if number < 0:",
            (WORST,),
        ),
        Mutant(
            "changes of an account are not counted",
            "accounts/keys/key_gate.py",
            'await self._writes.spend(holder.key.user_id, "key")',
            "pass",
            ("spec/test_write_budget.py",),
        ),
    ),
)

TAKING_BACK: Final = Recipe(
    name="accounts taken back",
    proves="after the owner's undo nothing of a thief works, and all of the owner's does",
    tests=(
        "accounts/test_taking_back.py",
        "accounts/test_account_pages.py",
        "accounts/test_takeover.py",
        "browser/test_takeover_in_browser.py",
    ),
    mutants=(
        Mutant(
            "wallets stay linked",
            BACK,
            "rows.wallets.unlink(user_id, linked.wallet)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "sessions go on",
            BACK,
            "sessions = end_sessions(rows, user_id)",
            "sessions = 0",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "authenticator apps and passkeys stay",
            BACK,
            "drop_factors(rows, user_id, since=since)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "second factors of the owner go",
            BACK,
            "drop_factors(rows, user_id, since=since)",
            "drop_factors(rows, user_id)",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "keys stay good",
            BACK,
            "rows.api_keys.update(key.key_id, revoked_at=at)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "caps stay as the thief has them",
            BACK,
            "rows.api_keys.update(key.key_id, month_credits_max=cap)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "an earlier cap is lost behind a hundred changes",
            BACK,
            "while page := rows.events.newest(before, EVENTS_AT_ONCE, wanted):",
            "if page := rows.events.newest(before, EVENTS_AT_ONCE, wanted):",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "webhooks go on to the thief",
            BACK,
            "rows.signals.update(signal.signal_id, webhook_url=None)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "a new factor is announced without an undo",
            "accounts/factors.py",
            'announce(self.rows, owner, kind, {"what": what}, self.nonce, since, self.at)',
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "no sign-in is too old",
            "site/endpoints.py",
            "if page.access is Access.FRESH and not session.is_fresh(self.clock.now()):",
            "if False:",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "webhooks that wait are sent after all",
            BACK,
            "rows.firings.give_up(signal.signal_id, at, TAKEN_BACK)",
            "pass",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "an undo reaches back to the change alone",
            "accounts/changes.py",
            "since = proof.made_at if proof.since is None else proof.since",
            "since = proof.made_at",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "the old address is anyone's",
            "accounts/people.py",
            "is_held = rows.proofs.holds(email, NO_USER, new.created_at)",
            "is_held = False",
            ("accounts/test_taking_back.py",),
        ),
        Mutant(
            "an undo of the thief undoes the owner's",
            "accounts/changes.py",
            "rows.proofs.use_up(Purpose.UNDO_EMAIL, user_id, now, since=proof.made_at)",
            "rows.proofs.use_up(Purpose.UNDO_EMAIL, user_id, now)",
            ("accounts/test_taking_back.py",),
        ),
    ),
)

RECIPES: Final = (WINDOWS, CLOCKS, TIMING, SECRETS, TAKING_BACK, HOSTILE)
