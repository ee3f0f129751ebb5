"""The Prometheus metrics of all processes, the server that exports them, and spans for tracing."""

import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import ClassVar, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import REGISTRY, Counter, Gauge, Metric, make_wsgi_app
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector
from typing_extensions import override

Attributes = Mapping[str, str | int]
Listener = Callable[[str, float, Attributes], None]


class Spans:
    """Passes each trace span that has ended to the listener: name, seconds and attributes.

    Attributes must have no secrets.  The listener must not block, because it is called between
    requests, in the event loop.
    """

    def __init__(self) -> None:
        self.listener: Listener | None = None  # None: nothing is traced

    def ended(self, name: str, elapsed_s: float, attributes: Attributes) -> None:
        """Pass the span *name*, which has ended, to the listener."""
        if self.listener is not None:
            self.listener(name, elapsed_s, attributes)


SPANS: Final = Spans()


DISCONNECTED_STATUS: Final = 499  # for a client that has left; only metrics use this status


class SetGauge(Gauge):
    """A gauge that is not exported until it is set: each process exports only its own gauges."""

    _is_set = False

    @override
    def set(self, value: float) -> None:
        self._is_set = True
        super().set(value)

    def measure(self, value: Callable[[], float]) -> None:
        """From now on, export the gauge with the result of *value* at each export."""
        self._is_set = True
        self.set_function(value)

    @override
    def collect(self) -> Iterable[Metric]:
        return super().collect() if self._is_set or self._labelnames else []


CHAIN_SLOT: Final = SetGauge("mintscope_chain_slot", "Newest slot that the chain's node reported")
SLOT_SECONDS: Final = SetGauge(
    "mintscope_chain_slot_seconds", "Seconds a slot takes, measured over the last minutes"
)
FINALITY_SLOTS: Final = SetGauge(
    "mintscope_chain_finality_slots", "Slots that finalized is behind confirmed, as ingest sees it"
)
FINALITY_SECONDS: Final = SetGauge(
    "mintscope_chain_finality_seconds",
    "Seconds from a confirmed slot until ingest knows that it is final",
)
ALPENGLOW: Final = SetGauge(
    "mintscope_chain_alpenglow",
    "1: the cluster has migrated to Alpenglow; 0: not yet; -1: its node does not know",
)
INGEST_SLOT: Final = SetGauge("mintscope_ingest_slot", "Newest slot in the log")
INGEST_LAG_S: Final = SetGauge("mintscope_ingest_lag_s", "Age of the newest slot that is stored")
BUILD_INFO: Final = Gauge("mintscope_build_info", "1 for the running build", ["version", "commit"])
BACKUP_AGE_S: Final = SetGauge(
    "mintscope_backup_age_s",
    "Seconds since the last backup, or since the installation began if there was none",
)
SOL_RATE_AGE_S: Final = SetGauge(
    "mintscope_sol_rate_age_s",
    "Seconds without a trade of SOL against a dollar, as of the newest slot",
)
FINALIZED_SLOT: Final = SetGauge("mintscope_finalized_slot", "Checkpoint of the finalized fold")
SWAPS: Final = Counter("mintscope_swaps_total", "Swaps decoded", ["program"])
QUARANTINED: Final = Counter(
    "mintscope_quarantined_total", "Transactions not understood", ["program", "reason"]
)
UNKNOWN_INSTRUCTIONS: Final = Counter(
    "mintscope_unknown_instructions_total",
    "Calls of known programs that gave one mint for another by an instruction we do not know",
    ["program", "discriminator"],
)
EXCHANGES: Final = Counter(
    "mintscope_exchanges_total",
    "Calls that exchanged tokens: read, read by transfers (unlisted), or missed",
    ["program", "outcome"],
)
EXCHANGED_USD: Final = Counter(
    "mintscope_exchanged_usd_total",
    "US dollars that calls in mintscope_exchanges_total moved, as far as known",
    ["program", "outcome"],
)
READ_SHARE: Final = SetGauge(
    "mintscope_read_share",
    "Part of all exchanges of this hour and the one before that was read, by calls and by volume",
    ["by"],
)
DOLLAR_OFF_PEG: Final = SetGauge(
    "mintscope_dollar_off_peg",
    "Deviation of a dollar from the median of all; beyond 0.01 it prices no token",
    ["mint"],
)
UNPRICED: Final = Counter("mintscope_unpriced_total", "Swaps that set no price", ["reason"])
RETRACTED: Final = Counter("mintscope_retracted_slots_total", "Slots that died after we saw them")
GAP_SLOTS: Final = Counter("mintscope_gap_slots_total", "Slots no source could deliver")
GAPS_OPEN: Final = SetGauge("mintscope_gaps_open", "Open gaps, whose swaps are missing in candles")
GAPS_GIVEN_UP: Final = SetGauge(
    "mintscope_gaps_given_up", "Open gaps that ingest no longer tries to mend"
)
GAPS_MENDED: Final = Counter("mintscope_gaps_mended_total", "Gaps that ingest has mended")
TRACKED_MINTS: Final = SetGauge("mintscope_tracked_mints", "Mints followed")
WAL_BYTES: Final = SetGauge(
    "mintscope_wal_bytes", "Bytes of the write-ahead log of a SQLite file", ["store"]
)
FREE_BYTES: Final = SetGauge(
    "mintscope_free_bytes", "Unused bytes of a SQLite file, as of the last check", ["store"]
)
UNCLEARED_MINTS: Final = SetGauge(
    "mintscope_uncleared_mints", "Mints no longer followed whose candles wait to be deleted"
)
MIGRATIONS_LEFT: Final = SetGauge(
    "mintscope_migrations_left", "Pending migrations of a store, while migrations run"
)
FORGOTTEN_MINTS: Final = Counter(
    "mintscope_forgotten_mints_total", "Mints forgotten on a day on which they did not trade"
)
MINTS_TO_LOOK_AT: Final = SetGauge(
    "mintscope_mints_to_look_at", "Numbers of mints that were not checked yet on a new day"
)
LIVE_MINTS: Final = SetGauge("mintscope_live_mints", "Mints held in memory by the confirmed fold")
RPC_REQUESTS: Final = Counter(
    "mintscope_rpc_requests_total", "Requests to the chain's node", ["method", "outcome"]
)
STREAM_ENDS: Final = Counter(
    "mintscope_stream_ends_total", "Subscriptions to a stream that ended", ["reason"]
)
SOURCE_STALLS: Final = Counter(
    "mintscope_source_stalls_total", "Times the source gave nothing while the chain went on"
)
OPEN_STREAMS: Final = SetGauge("mintscope_open_streams", "Streams of clients that are open")
STREAMS_ENDED: Final = Counter(
    "mintscope_streams_ended_total", "Streams of clients that ended", ["reason"]
)
DEBITS: Final = Counter("mintscope_debits_total", "Credits asked for", ["outcome"])
SALES_OPEN: Final = SetGauge(
    "mintscope_sales_open", "1 while payments are taken, 0 while they are not"
)
SALES_OPEN_TO_NEW_PAYERS: Final = SetGauge(
    "mintscope_sales_open_to_new_payers",
    "1 while payments are taken of payers that bought nothing within 24 hours",
)
VIOLATIONS: Final = SetGauge(
    "mintscope_violations", "Contradictions in the books of money at the last audit", ["invariant"]
)
AUDITS: Final = Counter("mintscope_audits_total", "Audits of the books of money", ["outcome"])
AUDIT_ENTRIES_LEFT: Final = SetGauge(
    "mintscope_audit_entries_left",
    "Entries of the journal that the walk of audits has not added up",
)
AUDITED_AT: Final = SetGauge(
    "mintscope_audited_at_seconds",
    "Unix time at which the last walk through all books came to its end",
)
ORPHANS: Final = SetGauge(
    "mintscope_orphans", "Payments of ours on chain that have no row, after a restore"
)
PENDING_PAYMENTS: Final = SetGauge(
    "mintscope_pending_payments", "Payments whose outcome is unknown"
)
OLDEST_PENDING_S: Final = SetGauge(
    "mintscope_oldest_pending_payment_s", "Age of the oldest one that waits"
)
FREEZES: Final = Counter(
    "mintscope_payment_freezes_total",
    "Payments whose purchase was taken back, or given again",
    ["change", "reason"],
)
UNREADABLE: Final = Counter(
    "mintscope_unreadable_payments_total",
    "Payments that landed and could not be read, at each check",
)
TREASURY_AGE_S: Final = SetGauge(
    "mintscope_treasury_compared_age_s", "Seconds since the treasury's history was compared"
)
FEE_PAYER_LAMPORTS: Final = SetGauge(
    "mintscope_fee_payer_lamports", "Lamports left for network fees"
)
CLOCK_SKEW_S: Final = SetGauge(
    "mintscope_clock_skew_s", "This machine's clock minus the time of the newest confirmed block"
)
TOKEN_USD: Final = SetGauge("mintscope_payment_token_usd", "Price of the payment token; 0 for none")
PAYMENTS: Final = Counter(
    "mintscope_payments_total", "Payments presented, by outcome", ["outcome", "reason"]
)
PAYMENTS_ISSUED: Final = Counter(
    "mintscope_payments_issued_total", "Payments that were issued, at once or later"
)
CREDITS_SOLD: Final = Counter(
    "mintscope_credits_sold_total", "Credits sold by payments: bundles and top-ups"
)
EMAILS: Final = Counter(
    "mintscope_letters_total", "E-mails handed to the mail server, by outcome", ["outcome"]
)
EMAILS_WAITING: Final = SetGauge("mintscope_letters_waiting", "E-mails neither sent nor given up")
ACCOUNT_WRITES: Final = Counter(
    "mintscope_account_writes_total",
    "Changes of accounts that are not money, asked for by key or page: made, or refused",
    ["by", "outcome"],
)
FORWARDED_FAULTS: Final = Counter(
    "mintscope_forwarded_faults_total",
    "Requests from trusted proxies that name no client address",
    ["fault"],
)
TRIALS_REFUSED: Final = Counter(
    "mintscope_trials_refused_total",
    "Payments refused without a trial, because too many had failed within a minute",
)
SIGNALS_FIRED: Final = Counter("mintscope_signals_fired_total", "Crossings of signals")
SIGNALS_HELD_BACK: Final = Counter(
    "mintscope_signals_held_back_total",
    "Firings that were not sent, because their alert had reached its hourly limit",
)
SIGNAL_MINTS: Final = SetGauge("mintscope_signal_mints", "Mints of evaluated signals")
SIGNAL_EVENTS_BEHIND: Final = SetGauge(
    "mintscope_signal_events_behind", "Events of the swap log for which signals are not evaluated"
)
WEBHOOKS: Final = Counter(
    "mintscope_webhooks_total", "Webhooks, by the outcome of each attempt, or dropped", ["outcome"]
)
WEBHOOKS_WAITING: Final = SetGauge(
    "mintscope_webhooks_waiting", "Webhooks neither delivered nor given up"
)
WEBHOOKS_OLDEST_S: Final = SetGauge(
    "mintscope_oldest_waiting_webhook_s", "Age of the oldest one that waits"
)
LIMITS_SHARED: Final = SetGauge(
    "mintscope_limits_shared", "1 while processes count limits together, 0 while each counts alone"
)
LIMITS_DECIDED_ALONE: Final = Counter(
    "mintscope_limits_decided_alone_total",
    "Requests that were counted against a share of a limit, without the store of limits",
)

CHECK_OK: Final = SetGauge(
    "mintscope_check_ok", "1 while a check of this process passes, 0 while it fails", ["check"]
)
CHECKED_AT: Final = SetGauge(
    "mintscope_checked_at_seconds", "Unix time of the last run of the checks"
)
READY: Final = SetGauge("mintscope_ready", "1 while this api is ready, as /readyz says")
DISK_FREE_BYTES: Final = SetGauge("mintscope_disk_free_bytes", "Free bytes on the disk of the data")
MEMORY_FREE_SHARE: Final = SetGauge(
    "mintscope_memory_free_share",
    "Free share of the memory of this process's control group, or else of the machine",
)
CERTIFICATE_EXPIRES_AT: Final = SetGauge(
    "mintscope_certificate_expires_at_seconds",
    "Unix time at which the certificate that clients see expires",
)
VENUE_SILENT_S: Final = SetGauge(
    "mintscope_venue_silent_s",
    "Seconds since the last swap of a program, by the time of the chain",
    ["program"],
)
RESTARTS: Final = SetGauge(
    "mintscope_process_restarts",
    "Times that a process of this service was started again",
    ["process"],
)
TASK_FAILURES: Final = Counter(
    "mintscope_task_failures_total",
    "Times that a task of a process ended with an error, and was started again",
    ["task"],
)

STOP_POLL_S: Final = 0.05


class RequestTally(Collector):
    """Counts HTTP responses by route, status and duration, faster than a Prometheus histogram.

    A Prometheus histogram takes 2 us a response.
    """

    BOUNDS_S: ClassVar = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

    def __init__(self) -> None:
        # One number for each bound, and one for all slower responses.
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._sums_s: dict[tuple[str, int], float] = {}

    def count(self, route: str, status: int, elapsed_s: float) -> None:
        """Count one response, and trace it as a span if traces are sent."""
        key = (route, status)
        if key not in self._counts:
            self._counts[key] = [0] * (len(self.BOUNDS_S) + 1)
            self._sums_s[key] = 0.0
        self._counts[key][bisect_left(self.BOUNDS_S, elapsed_s)] += 1
        self._sums_s[key] += elapsed_s
        if SPANS.listener is not None:
            attributes: Attributes = {"http.route": route, "http.response.status_code": status}
            SPANS.ended(route, elapsed_s, attributes)

    def by_status(self) -> dict[int, int]:
        """Return the number of responses for each status."""
        found: dict[int, int] = {}
        # A copy, because a request may add a route while another thread reads.
        for (_, status), counts in list(self._counts.items()):
            found[status] = found.get(status, 0) + sum(counts)
        return found

    @override
    def collect(self) -> Iterator[Metric]:
        seconds = HistogramMetricFamily(
            "mintscope_request_s", "Time to answer", labels=["route", "status"]
        )
        bounds = [*map(str, self.BOUNDS_S), "+Inf"]
        # A copy, because the event loop may add a route while the thread of metrics reads.
        for (route, status), counts in list(self._counts.items()):
            buckets = list(zip(bounds, map(float, accumulate(counts)), strict=True))
            seconds.add_metric([route, str(status)], buckets, self._sums_s[route, status])
        yield seconds


REQUESTS: Final = RequestTally()
REGISTRY.register(REQUESTS)


@contextmanager
def serve_metrics(host: str, port: int) -> Iterator[int]:
    """Serve the metrics of this process in a thread during the block; yield the port.

    port     the port to listen on; 0 selects a free port
    Raises   OSError if the address cannot be used
    """
    server = make_server(
        host,
        port,
        make_wsgi_app(REGISTRY),
        server_class=_MetricsServer6 if ":" in host else ThreadingWSGIServer,
        handler_class=_MetricsHandler,
    )
    thread = threading.Thread(
        target=server.serve_forever, args=(STOP_POLL_S,), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _MetricsServer6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _MetricsHandler(WSGIRequestHandler):
    timeout = 5  # seconds for each read and write

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because requests for metrics are routine."""
