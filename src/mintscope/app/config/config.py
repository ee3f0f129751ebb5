"""Sections of the configuration: settings with units in their names, defaults and bounds."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mintscope.app.config import values
from mintscope.kit.time import DAY_S, HOUR_S


class Section(BaseModel):
    """A part of the configuration, for one component; the text below a setting explains it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChainConfig(Section):
    """The sources of blocks."""

    source: Literal["rpc", "geyser", "files"] = "rpc"
    """A JSON-RPC node, a gRPC stream that it repairs (see geyser), or block files."""
    rpc_url: values.Url = SecretStr("http://127.0.0.1:8899")
    """The node. May hold the provider's key, so only its host is ever shown."""
    rpc_url_file: values.File = None
    second_rpc_url: values.OptionalUrl = None
    """Another node, for blocks that the first does not give, while the first fails or stands still,
    and for mending gaps."""
    second_rpc_url_file: values.File = None
    rpc_headers: values.Headers = {}
    """Headers for the provider. In the environment: `Name: value, Name: value`."""
    rpc_headers_file: values.File = None
    """The file that holds rpc_headers instead, one `Name: value` a line."""
    files: values.Paths = ()
    """Block files, read in this order: getBlock JSON lines, plain or gzip."""
    start: values.Start = "latest"
    """Where a new installation begins: "latest", "first" (the oldest block the node has) or a slot.
    An existing installation continues where it stopped."""
    backfill_s: int = Field(default=600, ge=0)
    """How far before "latest" to begin."""
    requests_in_flight: int = Field(default=10, ge=1, le=100)
    """How many blocks are requested at a time."""
    timeout_s: values.Seconds = 20.0
    """Timeout of one request, from the first to the last byte."""
    poll_interval_ms: int = Field(default=150, ge=10, le=60_000)
    """Pause before the next request when there was no new block."""
    gap_after_s: values.Seconds = 15.0
    """How long to ask for a block that must exist before its slots are recorded as a gap."""
    gap_mend_after_s: values.Seconds = 300.0
    """How long after a gap ingest first tries to mend it; each further pause is twice as long."""
    gap_attempts_max: int = Field(default=8, ge=1, le=20)
    """How often ingest tries to mend a gap; after that it is given up."""
    gap_calls_per_day: values.CallsPerDay = 50_000
    """Requests in a UTC day to mend gaps, 1,000 or more. A token whose backfill takes more is not
    mended; 0: gaps are not mended automatically."""
    holder_calls_per_day: int = Field(default=3_000, ge=0, le=10_000_000)
    """Requests in a UTC day for holders of tokens, in each process of the API: three a token, at
    most every five minutes. With 0, or with block files, no holders are read."""
    gap_rate_pools: values.Addresses = ()
    """Pools of SOL and dollars that price mended tokens; by default the busiest in the log."""
    stall_after_s: values.Seconds = 30.0
    """How long a source may give nothing while the node names newer slots; then it is restarted."""
    max_gap_s: int = Field(default=86_400, ge=0)
    """The slots of a longer absence become a gap; 0: they are read, however many."""
    history_calls_per_s: float = Field(default=10, ge=0.1, le=10_000)
    """Requests a second for the backfills that administrators request on a page."""
    decode_ahead: bool = True
    """While several blocks wait, decode in a second process, too, if there is a processor for it;
    it takes about 80 MB meanwhile."""
    max_transaction_version: int = Field(default=1, ge=0, le=127)
    """Newest transaction version to ask for; rises by itself if a block holds a newer one."""


class ApiConfig(Section):
    """The listener of the API, and its limits."""

    host: values.Host = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every address."""
    port: values.Port = 8402
    """Port to listen on; 0 takes any free one."""
    origin: values.Origin = None
    """The address clients use, as `https://api.example.org`; unset: the address of the listener."""
    name: values.ServiceName = "mintscope"
    """Name of the service in descriptions and directories."""
    contact: values.Contact = None
    """The contact for vulnerabilities, `mailto:security@example.org` or an https address: in
    /.well-known/security.txt, which is not served without it, and in /openapi.json."""
    trusted_proxies: values.Networks = ()
    """Addresses or networks whose X-Forwarded-For is trusted, as `10.0.0.0/8`."""
    rate_limit_requests: values.Count = 30
    """Requests a client may make in a window."""
    rate_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    health_limit_requests: values.Count = 120
    """Requests to /v1/health a client may make in a window."""
    health_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    trial_reports_per_day: int = Field(default=10, ge=0, le=1_000_000)
    """Reports that GET /v1/trial/{tokenAddress} gives a client address in 24 hours for free. They
    count among `web.free_views_per_day`, too. 0: the path is 404."""
    other_limit_requests: values.Count = 600
    """Requests to everything without a limit of its own, such as pages, that a client address may
    make in a window."""
    other_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    rotation_limit_requests: values.Count = 10
    """Rotations of a credit token, and of those it was rotated into, in a window. A user may make
    as many withdrawals, and six times as many deposits; these are counted separately."""
    rotation_limit_window_s: int = Field(default=HOUR_S, ge=1, le=DAY_S)
    degraded_after_s: values.Seconds = 30.0
    """Older data is served marked degraded."""
    stale_after_s: values.Seconds = 300.0
    """Older data is not served, and costs nothing."""
    idle_after_s: values.Seconds = 300.0
    """A token whose price no swap has set for longer is served marked idle."""
    read_share_min: float = Field(default=0.95, ge=0, le=1)
    """Part of the calls that exchanged tokens lately, and of their volume, that must have been
    read, else the check `coverage` of /v1/health fails; nothing is refused for it."""
    poll_interval_ms: int = Field(default=20, ge=1, le=10_000)
    """Pause before looking for new blocks in the store."""
    header_bytes_max: int = Field(default=16 * 1024, ge=1024, le=1024 * 1024)
    """Size of all headers of a request; more is answered 431."""
    body_bytes_max: int = Field(default=64 * 1024, ge=1024, le=64 * 1024 * 1024)
    """Size of a request body; more is answered 413."""
    request_timeout_s: values.Seconds = 14.0
    """How long a client may take to send its request."""
    answer_timeout_s: values.Seconds = 14.0
    """How long a client may leave its response unread, or read less than 4 KiB of it a second."""
    keep_alive_s: values.Seconds = 10.0
    """An idle connection is closed after this, within a second."""
    express: bool = True
    """Answer plain requests for a token's data before the rest of the service is asked. Answers
    are the same without it, and cost twice the processor time. Has no effect if api processes share
    the counts of limits."""
    connections_max: int = Field(default=2_000, ge=1, le=100_000)
    """Open connections in all."""
    connections_per_client_max: int = Field(default=256, ge=1, le=100_000)
    """Open connections of one client address: an IPv4 address or an IPv6 /64. A /48 may open four
    times as many."""


class CreditsConfig(Section):
    """The pepper and the roots, and the journal of prepaid credits."""

    pepper: values.Pepper = None
    """Key of the hashes that credit tokens, application secrets and API keys are stored as, at
    least 64 hexadecimal digits. Unset: kept in the file `pepper` of data_dir, made at first use.
    BACK IT UP: without it all of them are void. A pepper that is in a document, or is a pattern, a
    sequence or a text, is refused unless a root signs in its place: `openssl rand -hex 32` makes a
    good one."""
    pepper_file: values.File = None
    """The file that holds pepper instead; one in data_dir is found without it."""
    roots: values.Roots = ()
    """Secrets from which quotes and receipts derive instead of the pepper, as `mintscope secrets
    rotate --print` prints them: each signs from its time on, and quotes of the ones before it stay
    valid for ten more minutes. The roots in the file `roots` of data_dir are used, too."""
    roots_file: values.File = None
    """The file that holds roots instead, one a line; one in data_dir is found without it."""
    spends_kept_months: int = Field(default=13, ge=0, le=1_200)
    """Months for which each spend of a closed month is kept; 0: for ever. The credits that an
    account received and spent in each month are always kept:
    docs/operating/sell.md#closed-months."""


class AccountsConfig(Section):
    """Limits of sign-ups, exchanges, API keys and changes; the days for which usage is kept."""

    signup_limit_requests: values.Count = 5
    """Applications a client may make in a window, new or known already; the clients of an IPv6 /48
    together make four times as many."""
    signup_limit_window_s: int = Field(default=HOUR_S, ge=1, le=DAY_S)
    exchange_limit_requests: values.Count = 1
    """Exchanges with the right secret that may be tried for an e-mail address in a window; and as
    many with a wrong secret, for each client."""
    exchange_limit_window_s: int = Field(default=5, ge=1, le=DAY_S)
    limit_requests: values.Count = 60
    """Requests under /api a client may make in a window, all together."""
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    key_limit_requests: values.Count = 60
    """Requests an API key may make in a window."""
    key_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    writes_per_day_max: values.Count = 500
    """Changes that are not money, by keys and on pages, that an account may make in any 24 hours:
    alerts, watchlists, wallets, keys, addresses."""
    writes_per_minute_max: values.Count = 600
    """Such changes that all accounts together may make in any 60 seconds."""
    usage_kept_days: int = Field(default=400, ge=31, le=36_500)
    """Days for which the requests and credits of each day, API key and endpoint are kept."""


class WebConfig(Section):
    """Pages for people, served by the listener of the api."""

    enabled: bool = True
    """Serve the pages."""
    session_idle_minutes: int = Field(default=30, ge=1, le=10_080)
    """An unused session ends after this."""
    session_hours_max: int = Field(default=12, ge=1, le=8_760)
    """Any session ends after this."""
    guesses_max: values.Count = 10
    """Wrong passwords for one e-mail address from one client in 15 minutes; other clients are
    counted apart, but the clients of an IPv6 /48 together may make only four times as many."""
    client_guesses_max: values.Count = 50
    """Wrong passwords from one client in 15 minutes, for any e-mail address; from the clients of an
    IPv6 /48 together, four times as many."""
    sign_ups_per_hour_max: values.Count = 20
    """Accounts that a client may make in an hour, together with its requests to change the address
    of an account; the clients of an IPv6 /48 together make four times as many."""
    showcase: values.Mints = ()
    """Tokens whose pages are free for everyone, like the page of wrapped SOL."""
    free_views_per_day: int = Field(default=20, ge=0, le=1_000_000)
    """Free views of other tokens' pages for a client address in a day; a view of a token lasts 15
    minutes, in every timeframe. Each view beyond these costs a credit."""
    tracks_per_day: int = Field(default=0, ge=0, le=1_000)
    """Tokens that a user with a verified e-mail address can have tracked in a day without approval.
    The user's further requests are listed for administrators, who decide."""
    live_pages_max: values.Count = 500
    """Open pages with live updates, which are part of the streams.open_max streams. Further pages
    of tokens show the data of the time at which they were loaded; other pages request it again."""
    demo_wallet_seed: values.Seed = ""
    """The key of a wallet that every browser is offered, 32 bytes in hex, for demos on the loopback
    address only: everyone who opens a page can spend what it holds."""
    second_factor_for_administrators: bool = False
    """Administration is open only to administrators with two-factor sign-in."""
    admin_host: values.Host = "127.0.0.1"
    """Address of a listener for administrators alone."""
    admin_port: values.OptionalPort = None
    """Port of the listener for administrators; further workers of `serve` use the next ports.
    Unset: administration is on the listener of the api."""


class MailConfig(Section):
    """E-mails to applicants and people."""

    delivery: Literal["none", "smtp", "page"] = "none"
    """smtp: by the server named here; none: e-mails wait in the outbox; page: they are shown at
    /mailbox to everyone, for demos on the loopback address only."""
    per_hour_max: values.Count = 3_000
    """E-mails that an api process tries to send in any hour; further due e-mails wait."""
    host: str = "127.0.0.1"
    """The mail server."""
    port: values.Port = 587
    """Port of the mail server."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is protected; none only to a loopback address."""
    username: str = ""
    """User name for signing in; empty: no sign-in."""
    password: values.OptionalSecret = None
    """Password for signing in."""
    password_file: values.File = None
    sender: values.Sender = "mintscope@localhost"
    """The sender address, as `no-reply@example.org`."""
    timeout_s: float = Field(default=20.0, gt=0, le=50, allow_inf_nan=False)
    """Timeout of one e-mail; after a minute another process may send it."""


class LogConfig(Section):
    """Log lines, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: readable text on a terminal, JSON lines otherwise."""


class MetricsConfig(Section):
    """Prometheus metrics, each process on a port of its own."""

    enabled: bool = True
    """Serve GET /metrics."""
    host: values.Host = "127.0.0.1"
    """Address to listen on."""
    ingest_port: values.Port = 9464
    """Port of the ingest process."""
    api_port: values.Port = 9465
    """Port of the api process; further workers of `serve` are on the next ports, or if it is 0,
    on any free port."""


class WatchConfig(Section):
    """Checks that each process runs by itself: see docs/runbook.md."""

    disk_free_bytes_min: int = Field(default=1024**3, ge=1)
    """Free space on the disk of data_dir; with less the check `disk` fails."""
    memory_free_share_min: float = Field(default=0.05, ge=0, le=1)
    """Free share of the memory of this process's control group, or else of the machine; with less
    the check `memory` fails."""
    backup_age_max_hours: int = Field(default=26, ge=0)
    """Age of the newest noted backup, or of the installation without one, above which the check
    `backup` fails. 0: backups are not checked."""
    wal_bytes_max: int = Field(default=256 * 1024**2, ge=1)
    """Length of the write-ahead log of an SQLite file above which the check `wal` fails."""
    public_address: bool = True
    """Send a request to `api.origin` every 20 s, as clients do, and read its certificate: the check
    `address`. Set it to false if this machine cannot reach its own public address."""
    certificate_min_days: int = Field(default=14, ge=0, le=365)
    """Days before the certificate of `api.origin` expires from which the check `address` fails."""
