"""Every setting: its name with the unit, its default, its bounds, its meaning."""

from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from mintscope.base.solana import LAMPORTS_PER_SOL, USDC
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.payments.pricing.price_list import FEE_SHARE_MAX
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.core.payments.store import Budget
from mintscope.shell.config import values


class Section(BaseModel):
    """A part of the configuration, for one component; the text below a setting is its meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ChainConfig(Section):
    """Where blocks come from."""

    source: Literal["rpc", "geyser", "files"] = "rpc"
    """A JSON-RPC node, a gRPC stream that it repairs (see geyser), or block files."""
    rpc_url: values.Url = SecretStr("http://127.0.0.1:8899")
    """The node. May hold the provider's key, so only its host is ever shown."""
    second_rpc_url: values.OptionalUrl = None
    """Another node, for what the first does not give."""
    rpc_headers: values.Headers = {}
    """Headers for the provider. In the environment: `Name: value, Name: value`."""
    files: values.Paths = ()
    """Block files, read in this order: getBlock JSON lines, plain or gzip."""
    start: values.Start = "latest"
    """Where a new installation begins: "latest", "first" (the oldest block the node has) or a slot.
    An existing one goes on where it stopped."""
    backfill_s: int = Field(default=600, ge=0)
    """How far before "latest" to begin."""
    requests_in_flight: int = Field(default=10, ge=1, le=100)
    """How many blocks are requested at a time."""
    timeout_s: values.Seconds = 20.0
    """Timeout of one request, from the first to the last byte."""
    poll_interval_ms: int = Field(default=150, ge=10, le=60_000)
    """Pause before the next request when there was no new block."""
    gap_after_s: values.Seconds = 120.0
    """How long to ask for a block that must exist before its slots are recorded as a gap."""
    max_gap_s: int = Field(default=86_400, ge=0)
    """A longer absence is not caught up but becomes a gap; 0: always caught up."""
    decode_ahead: bool = True
    """While several blocks wait, decode in a second process, too, if there is a processor for it;
    it takes about 80 MB meanwhile."""
    max_transaction_version: int = Field(default=1, ge=0, le=127)
    """Newest transaction version to ask for; rises by itself where a block holds a newer one."""

    @model_validator(mode="before")
    @classmethod
    def _read_old_names(cls, read: Any) -> Any:
        return values.from_slots(read, ("backfill_slots", "max_gap_slots"))


class ApiConfig(Section):
    """How clients are served."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every one."""
    port: values.Port = 8402
    """Port to listen on; 0 takes any free one."""
    origin: values.Origin = None
    """The address clients use, as `https://api.example.org`; unset: where it listens."""
    trusted_proxies: values.Networks = ()
    """Addresses or networks whose X-Forwarded-For is trusted, as `10.0.0.0/8`."""
    rate_limit_requests: values.Count = 30
    """Requests a client may make in a window."""
    rate_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""
    health_limit_requests: values.Count = 120
    """Requests to /v1/health a client may make in a window."""
    health_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""
    other_limit_requests: values.Count = 600
    """Requests to everything without a limit of its own, as pages, that a client address may make
    in a window."""
    other_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""
    rotation_limit_requests: values.Count = 10
    """Rotations of a credit token, and of those it was rotated into, in a window; apart from these,
    withdrawals of a user."""
    rotation_limit_window_s: int = Field(default=HOUR_S, ge=1, le=DAY_S)
    """Length of that window."""
    degraded_after_s: values.Seconds = 30.0
    """Older data is served marked degraded."""
    stale_after_s: values.Seconds = 300.0
    """Older data is not served, and costs nothing."""
    poll_interval_ms: int = Field(default=50, ge=1, le=10_000)
    """Pause before looking for new blocks in the store."""
    header_bytes_max: int = Field(default=16 * 1024, ge=1024, le=1024 * 1024)
    """Size of all headers of a request; more is answered 431."""
    body_bytes_max: int = Field(default=64 * 1024, ge=1024, le=64 * 1024 * 1024)
    """Size of a request body; more is answered 413."""
    request_timeout_s: values.Seconds = 14.0
    """How long a client may take to send its request."""
    answer_timeout_s: values.Seconds = 14.0
    """How long a client may take to read its response."""
    keep_alive_s: values.Seconds = 10.0
    """An idle connection is closed after this, within a second."""
    express: bool = True
    """Answer plain requests for a token's data before the rest of the service is asked. Answers
    are the same without it, and cost twice the processor time. Only where each api process counts
    limits alone."""
    connections_max: int = Field(default=2_000, ge=1, le=100_000)
    """Open connections in all."""
    connections_per_client_max: int = Field(default=256, ge=1, le=100_000)
    """Open connections of one client address: an IPv4 address or an IPv6 /64. A /48 may open four
    times as many."""


class CreditsConfig(Section):
    """Prepaid credits."""

    pepper: values.Pepper = None
    """Key of the hashes that credit tokens, application secrets and API keys are stored as, at
    least 64 hexadecimal digits. Unset: kept in the file `pepper` of data_dir, made at first use.
    BACK IT UP: without it all of them are void."""


class PaymentsConfig(Section):
    """Sales for x402 payments on Solana: single requests and bundles of credits."""

    enabled: bool = False
    """Whether requests and credits are sold; payments settle through chain.rpc_url."""
    network: str = Field(default=MAINNET, pattern=r"^solana:[1-9A-HJ-NP-Za-km-z]{32}$")
    """The chain, in CAIP-2, as it stands in a 402 response."""
    asset: values.Address = USDC
    """The payment token: its mint. Followed on a new installation."""
    asset_name: str = Field(default="USD Coin", min_length=1, max_length=64)
    """Its name, for clients."""
    asset_symbol: str = Field(default="USDC", min_length=1, max_length=16)
    """Its symbol, for clients."""
    decimals: values.Decimals = 6
    """Its decimals; compared with the mint."""
    token_program: values.TokenProgram = TOKEN_PROGRAM
    """The program that owns the mint; compared with the mint."""
    pay_to: values.OptionalAddress = None
    """The treasury: the wallet that is paid. Its token account must exist; its key does not belong
    on this machine."""
    fee_payer_file: values.File = None
    """The Solana keypair file of the wallet that pays the network fees, about 10,001 lamports a
    payment. A hot key: keep little on it, and no tokens."""
    fee_payer_key: values.Key = None
    """The same key instead of a file: the content of the file, or base58."""
    fee_payer_lamports_min: values.Lamports = LAMPORTS_PER_SOL // 10
    """The doctor and the log warn when the fee payer has less."""
    price_source: Literal["pinned", "market", "feed"] = "pinned"
    """What the payment token is worth: payments.price_usd; its own market as followed here; or a
    feed."""
    price_usd: values.Usd = Decimal(1)
    """The pinned price of one whole token, in USD."""
    price_feed_url: values.OptionalUrl = None
    """A feed that answers as Pyth's Hermes does: /v2/updates/price/latest of one price id."""
    pools: values.Pools = ()
    """The token's pools, whose reserves a market price needs: `vault of the token:vault of what it
    is traded for`, SOL, USDC or USDT."""
    fee_share_max: values.Share = FEE_SHARE_MAX
    """The share of a single request's price that the network fee of its payment may eat, at the
    price of SOL followed here; beyond, only bundles are sold. 1 is break-even, at 250 USD for a
    SOL; 0.5 is reached at 125."""
    failures_per_hour_max: values.Count = Budget().failures
    """Payments that may fail on chain within the hour, per payer; per client address, which may
    stand for many payers, more than those that succeeded."""
    in_flight_per_new_payer_max: values.Count = Budget().in_flight_new_payer
    """Payments under way of a payer that has bought nothing within 24 hours."""
    in_flight_per_payer_max: values.Count = Budget().in_flight_payer
    """Payments under way or failed, of a payer that has bought nothing within the hour; one more
    for each payment of it that was good."""
    in_flight_per_address_max: values.Count = Budget().in_flight_address
    """The same, per client address, which may stand for many payers."""
    fees_per_hour_lamports: values.Lamports = Budget().fee_lamports
    """Network fees of payments that failed on chain within the hour; beyond, nothing is sold.
    Payers whose payments fail more often than they were good within 24 hours share half of them.
    One payer or client address may put a tenth of them at risk, with payments under way."""
    fees_in_flight_lamports: values.Lamports = Budget().in_flight_fee_lamports
    """Network fees of payments under way, never more than the fee payer has. Who has bought nothing
    within 24 hours shares half of them; beyond, nothing is sold."""


class AccountsConfig(Section):
    """Rate limits of sign-ups, exchanges and API keys."""

    signup_limit_requests: values.Count = 5
    """Applications a client may make in a window, new or known already; the clients of an IPv6 /48
    together make four times as many."""
    signup_limit_window_s: int = Field(default=HOUR_S, ge=1, le=DAY_S)
    """Length of that window."""
    exchange_limit_requests: values.Count = 1
    """Exchanges an e-mail address may try in a window, with the right secret; and with any other,
    for each client."""
    exchange_limit_window_s: int = Field(default=5, ge=1, le=DAY_S)
    """Length of that window."""
    limit_requests: values.Count = 60
    """Requests under /api a client may make in a window, all together."""
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""
    key_limit_requests: values.Count = 60
    """Requests an API key may make in a window."""
    key_limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""


class WebConfig(Section):
    """Pages for people, on the listener of the api."""

    enabled: bool = True
    """Serve the pages."""
    session_idle_minutes: int = Field(default=30, ge=1, le=10_080)
    """An unused session ends after this."""
    session_hours_max: int = Field(default=12, ge=1, le=8_760)
    """Any session ends after this."""
    guesses_max: values.Count = 10
    """Wrong passwords for one e-mail address from one client in 15 minutes; other clients are
    counted apart."""
    client_guesses_max: values.Count = 50
    """Wrong passwords from one client in 15 minutes, for any e-mail address."""
    sign_ups_per_hour_max: values.Count = 20
    """Accounts that a client may make in an hour."""
    admin_host: str = "127.0.0.1"
    """Address of a listener for administrators alone."""
    admin_port: values.OptionalPort = None
    """Its port, the next ones for further workers of `serve`. Unset: administration is on the
    listener of the api."""


class MailConfig(Section):
    """E-mails to applicants and people."""

    delivery: Literal["none", "smtp", "page"] = "none"
    """smtp: by the server named here; none: e-mails wait in the outbox; page: they are shown at
    /mailbox to everyone, for demos on the loopback address only."""
    host: str = "127.0.0.1"
    """The mail server."""
    port: values.Port = 587
    """Its port."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is protected; none only to a loopback address."""
    username: str = ""
    """User name for signing in; empty: no sign-in."""
    password: values.OptionalSecret = None
    """Password for signing in."""
    sender: values.Sender = "mintscope@localhost"
    """The sender address, as `no-reply@example.org`."""
    timeout_s: float = Field(default=20.0, gt=0, le=50, allow_inf_nan=False)
    """Timeout of one e-mail; after a minute another process may send it."""


class LogConfig(Section):
    """Log lines, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: for people on a terminal, JSON lines elsewhere."""


class MetricsConfig(Section):
    """Prometheus metrics, each process on a port of its own."""

    enabled: bool = True
    """Serve GET /metrics."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    ingest_port: values.Port = 9464
    """Port of the ingest process."""
    api_port: values.Port = 9465
    """Port of the api process; further workers of `serve` are on the next ports."""
