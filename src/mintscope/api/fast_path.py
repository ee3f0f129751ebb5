"""GET /v1/token/{tokenAddress} for a credit, answered at once in the usual case.

A request takes the fast path if the conditions below are true.  Before the debit, only the count of
the rate limit changes.  If a condition is false, the request can therefore still go to
`V1.get_token`, which has all rules and errors.  The fast path sends only successes, created by the
functions that `V1.get_token` uses.

    account, root   are cached from an earlier request, after which the account still had credits
    report          is cached, and fresh enough to be sold
    window          the rate limit of the account allows the request
    debit           is durable before the answer is sent, in a group commit with other debits
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mintscope.api.v1 import CHECKED, Freshness
from mintscope.api.wire import success_with_body
from mintscope.credits.ledger import Empty, InstantLedger, Remembered, Spent
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.connections import FastPathCycle
from mintscope.kit.http.rate_limit import limit_headers
from mintscope.kit.http.request import next_request_id
from mintscope.kit.http.response import JSON, Head, Header
from mintscope.kit.limits import Admitted, Denied, MovingWindow
from mintscope.kit.primitives import CreditAccount
from mintscope.market.report import ReadReport, Reports

START: Final = b"/v1/token/"
ROUTE: Final = "/v1/token/{tokenAddress}"
BEARER: Final = b"Bearer "
HEAD: Final = (
    b"%bx-request-id: %b\r\n%bx-credits-remaining: %d\r\n%betag: %b\r\ncontent-length: %d\r\n"
)
# Headers that a route or the server acts on: a request with any of them goes to the route.
UNUSUAL: Final = frozenset(
    (
        b"content-length",
        b"expect",
        b"idempotency-key",
        b"if-none-match",
        b"origin",
        b"payment-signature",
        b"sign-in-with-x",
        b"transfer-encoding",
        b"upgrade",
    )
)


class TokenFastPath:
    """Answers plain requests for a report without the application.

    limiter   the rate limit, which shares its counts with the gate
    """

    def __init__(
        self,
        *,
        ledger: InstantLedger,
        reports: Reports,
        limiter: MovingWindow,
        freshness: Freshness,
        clock: Clock,
    ) -> None:
        self.limiter = limiter
        self._ledger = ledger
        self._reports = reports
        self._freshness = freshness
        self._clock = clock
        # The lines are cached: many responses have the same age or the same state of a limit.
        self._freshness_lines = lru_cache(maxsize=8)(
            lambda slot, age_ms, is_idle: _lines(
                freshness.headers(slot=slot, age_ms=age_ms, is_idle=is_idle, cache=CHECKED)
            )
        )
        self._limit_lines = lru_cache(maxsize=4_096)(
            lambda limit, verdict: _lines(limit_headers(limit, verdict))
        )

    def take(self, request: FastPathCycle) -> bool:
        """Return whether the fast path takes *request*.

        If it does, *request* is answered after its debit, or passed on to the application later.
        """
        head = request.head
        remembered = self._caller(head) if head.url.startswith(START) else None
        if remembered is None:
            return False
        # A path with a query or an escape is no mint here, so the route answers it.
        report = self._reports.ready(head.url[len(START) :].decode("latin-1"))
        if report is None or not self._freshness.allows(report):
            return False
        # Only this step has an effect, so it is the last one before the debit.
        verdict = self.limiter.take_now(remembered.root)
        if isinstance(verdict, Denied):
            return False
        request.route = ROUTE
        debit = _Debit(self, request, report, remembered.root, verdict)
        try:
            self._ledger.spend_for(remembered.account, debit)
        except ServiceUnavailable:  # the route counts the request again, and reports the error
            self.limiter.give_back_now(remembered.root)
            return False
        return True

    def _caller(self, head: Head) -> Remembered | None:
        """Return the cached account of the credit token in *head*; None if it is not cached.

        Returns None, too, if a header is repeated, or needs more work than the fast path does
        (UNUSUAL).
        """
        if head.is_repetitive() or not UNUSUAL.isdisjoint(head.by_name):
            return None
        credential = head.by_name.get(b"authorization", b"")
        if not credential.startswith(BEARER):
            return None
        return self._ledger.recall(credential[len(BEARER) :])

    def answer(
        self, request: FastPathCycle, report: ReadReport, verdict: Admitted, balance: int
    ) -> None:
        """Send *report* as the answer to *request*; *balance* is the number of credits left."""
        request_id = next_request_id()
        body = success_with_body(report.body, at=self._clock.now(), request_id=request_id)
        head = HEAD % (
            JSON_LINE,
            request_id,
            self._limit_lines(self.limiter.limit, verdict),
            balance,
            self._freshness_lines(report.slot, report.age_ms, self._freshness.is_idle(report)),
            report.tag,
            len(body),
        )
        request.respond(head, body)


class _Debit:
    """The debit of one request on the fast path; when it is stored, the request is answered."""

    __slots__ = ("_fast_path", "_is_reported", "_report", "_request", "_root", "_verdict")

    def __init__(
        self,
        fast_path: TokenFastPath,
        request: FastPathCycle,
        report: ReadReport,
        root: CreditAccount,
        verdict: Admitted,
    ) -> None:
        self._fast_path = fast_path
        self._request = request
        self._report = report
        self._root = root
        self._verdict = verdict
        self._is_reported = False

    def done(self) -> bool:
        """Return whether the request was answered, or the client has left and pays nothing."""
        return self._is_reported or self._request.is_gone()

    def set_result(self, outcome: Spent | Empty) -> None:
        """Answer the request, which is paid; without a credit, let `V1.get_token` answer."""
        if isinstance(outcome, Empty):
            self._fall_back()
            return
        self._is_reported = True
        try:
            self._fast_path.answer(self._request, self._report, self._verdict, outcome.balance)
        except Exception:  # a bug: raise it, so that the credit is given back
            self._fall_back()
            raise

    def set_exception(self, _why: Exception) -> None:
        """Fall back to `V1.get_token`, which reports the error; no credit was taken."""
        self._fall_back()

    def _fall_back(self) -> None:
        self._is_reported = True
        # The route counts the request again.
        self._fast_path.limiter.give_back_now(self._root)
        self._request.fall_back()


def _lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


JSON_LINE: Final = _lines([JSON])
