"""Claims of `make prove` about clients that attack connections."""

from typing import Final

from prove.recipe import Mutant, Recipe

FAST_PATH: Final = "api/fast_path.py"
CONNECTION: Final = "kit/http/connection.py"

ABUSE: Final = Recipe(
    name="HTTP abuse",
    proves="slow, huge, doubled and broken requests are closed in time and cost no one else",
    tests=(
        "kit/http/test_protocol.py",
        "kit/http/test_lost_connections.py",
        "kit/http/test_whole_answer.py",
    ),
    mutants=(
        Mutant(
            "no limit of the body",
            CONNECTION,
            "if len(self._received) > self._bounds.body_bytes_max:",
            "if False:",
        ),
        Mutant(
            "several hosts",
            "kit/http/response.py",
            'if head.is_repetitive() and [name for name, _ in head.headers].count(b"host") > 1:',
            "if False:",
        ),
        Mutant(
            "silence is never closed",
            CONNECTION,
            "self._deadline = self.loop.call_later(self._bounds.request_s_max, self._overdue)",
            "self._deadline = self.loop.call_later(3_600, self._overdue)",
        ),
        Mutant(
            "a trailer is a header",
            CONNECTION,
            "self.headers = []  # a trailer is not a header: it must not reach the application",
            "pass",
        ),
    ),
)
BOTH_WAYS: Final = Recipe(
    name="both ways of a request",
    proves="what is answered from the parser's callback is answered as the application would",
    tests=("spec/test_both_ways.py",),
    mutants=(
        Mutant(
            "old data is sold",
            FAST_PATH,
            "if report is None or not self._freshness.allows(report):",
            "if report is None:",
        ),
        Mutant(
            "each rotation has a window of its own",
            FAST_PATH,
            "verdict = self.limiter.take_now(remembered.root)",
            "verdict = self.limiter.take_now(-remembered.root)",
        ),
        Mutant(
            "a payment beside the credit is not seen",
            FAST_PATH,
            "if head.is_repetitive() or not UNUSUAL.isdisjoint(head.by_name):",
            "if head.is_repetitive():",
        ),
        Mutant(
            "an empty account keeps its place in the window",
            FAST_PATH,
            "self._fast_path.limiter.give_back_now(self._root)",
            "pass",
        ),
    ),
)
SPELLINGS: Final = Recipe(
    name="methods and spellings",
    proves="no method and no spelling of a path runs what is paid for",
    tests=("spec/test_routes.py",),
)

FLOODS: Final = Recipe(
    name="floods",
    proves="no client's requests, connections or addresses take more than their part",
    tests=(
        "kit/http/test_connection_bounds.py",
        "app/test_every_route_has_a_limit.py",
    ),
    mutants=(
        Mutant(
            "any number of requests wait",
            CONNECTION,
            "if len(self.pipeline) >= self._bounds.waiting_max:",
            "if False:",
        ),
        Mutant(
            "half a request keeps its connection",
            "kit/http/connections.py",
            "oldest = next(iter(self.incomplete), None)",
            "oldest = None",
        ),
        Mutant(
            "bodies that are not whole have no bound together",
            "kit/http/connections.py",
            "while self._kept_bytes > self.bounds.unread_bytes_max:",
            "while False:",
        ),
        Mutant(
            "answers to a burst are lost with what is not read of it",
            "kit/http/whole_response.py",
            "if not self.keep_alive and not self.is_followed_by_end:",
            "if not self.keep_alive:",
        ),
        Mutant(
            "no pause after 429",
            "kit/http/dispatch.py",
            "if self._is_slowed and not self.transport.is_closing():",
            "if False:",
        ),
        Mutant(
            "routes without a limit of their own have none",
            "kit/http/application.py",
            "if not route.limits_itself:",
            "if False:",
        ),
        Mutant(
            "a /48 has as many limits as it has networks",
            "kit/http/rate_limit.py",
            "return client, site_key(client)",
            "return client, client",
        ),
    ),
)

BROKEN: Final = Recipe(
    name="broken conversations",
    proves="a credit is taken for an answer that left, and for one with a key once",
    tests=(
        "spec/test_broken_conversations.py",
        "spec/test_answers_given_again.py",
        "e2e/test_conversation_storm.py",
    ),
    mutants=(
        Mutant(
            "a repetition does not count",
            "credits/sqlite.py",
            "return ledger.Debited(debit, balance, month, bought_at, is_repeat=True)",
            "pass",
            ("e2e/test_conversation_storm.py",),
        ),
        Mutant(
            "what clients do not wait for any more is taken",
            "credits/store.py",
            "return outcome.reversal()",
            "return None",
            ("contract/test_debit_ledger.py",),
        ),
        Mutant(
            "credits of clients that have gone are kept",
            "kit/http/application.py",
            "request.expect_client()",
            "pass",
            ("spec/test_broken_conversations.py",),
        ),
        Mutant(
            "what was not sent counts as sent",
            "api/x402.py",
            "request.if_unsent = partial(self._take_back, receipt.taken, kept_as)",
            "pass",
            ("spec/test_broken_conversations.py",),
        ),
        Mutant(
            "a second credit for the same key",
            "api/x402.py",
            "once = await name_of(request, payer.account, key)",
            "once = None",
            ("spec/test_answers_given_again.py",),
        ),
        Mutant(
            "what is given back stays paid for",
            "credits/kept_answers.py",
            "DELETE FROM kept_answer WHERE name = ? AND repeats < 0 AND owed_at = at",
            "UPDATE kept_answer SET at = at WHERE name = ? AND repeats < 0 AND owed_at = at",
            ("spec/test_answers_given_again.py",),
        ),
        Mutant(
            "a repetition whose client has left counts as answered",
            "credits/store.py",
            "return outcome.reversal()",
            "return None if outcome.is_repeat else outcome.reversal()",
            ("contract/test_debit_ledger.py",),
        ),
        Mutant(
            "an answer that was made meanwhile is sent, and not the one that is kept",
            "api/x402.py",
            "return msgspec.structs.replace(receipt, report=kept.report)",
            "return receipt",
            ("spec/test_answers_given_again.py",),
        ),
        Mutant(
            "an answer that was given back is sold again",
            "api/x402.py",
            "self._kept.forget(kept_as)",
            "pass",
            ("spec/test_answers_given_again.py",),
        ),
        Mutant(
            "what a dead process took on PostgreSQL is given back without its name",
            "credits/postgres.py",
            "yield ledger.Reversal(account, -delta, key, counted_in, None, once, endpoint, at)",
            "yield ledger.Reversal(account, -delta, key, counted_in, None, None, endpoint, at)",
            ("contract/test_debit_ledger.py",),
        ),
        Mutant(
            "names of answers are kept for ever",
            "credits/sqlite.py",
            "if abs(at - self._forgot_at) >= ledger.KEPT_MS:",
            "if not at:",
            ("contract/test_debit_ledger.py",),
        ),
    ),
)
HOSTILE: Final = Recipe(
    name="hostile numbers",
    proves="no number and no bytes of a client are a 500, on any route or page",
    tests=(
        "spec/test_hostile_numbers.py",
        "site/test_numbers_in_forms.py",
        "kit/http/test_body_flaws.py",
        "api/data/test_cursor.py",
        "kit/test_third_party_parsers.py",
    ),
    mutants=(
        Mutant(
            "cursors of any size",
            "api/wire.py",
            "if not all(-INTEGERS <= number < INTEGERS for number in numbers):",
            "if False:",
            ("api/data/test_cursor.py",),
        ),
        Mutant(
            "integers of any size in a body",
            "kit/http/request.py",
            "if isinstance(value, int) and not -INTEGERS <= value < INTEGERS:",
            "if False:",
            ("kit/http/test_body_flaws.py",),
        ),
        Mutant(
            "what a library raises is a 500",
            "kit/errors.py",
            'raise Undecodable(f"{type(cause).__name__}: {cause}") from cause',
            "raise",
            ("kit/test_third_party_parsers.py",),
        ),
    ),
)
RECIPES: Final = (ABUSE, BOTH_WAYS, SPELLINGS, FLOODS, BROKEN, HOSTILE)
