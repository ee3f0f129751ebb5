"""Every setting: its name with the unit, its default, its bounds, its meaning."""

from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from mintscope.base.solana import LAMPORTS_PER_SOL, USDC
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.payments.pricing.price_list import FEE_SHARE_MAX
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.core.payments.store import Budget
from mintscope.shell.config.values import (
    Address,
    Count,
    Decimals,
    File,
    Headers,
    Key,
    Lamports,
    Mailbox,
    Mints,
    Networks,
    OptionalAddress,
    OptionalPort,
    OptionalSecret,
    OptionalUrl,
    Origin,
    Paths,
    Pepper,
    Pools,
    Port,
    Seconds,
    Share,
    Start,
    TokenProgram,
    Url,
    Usd,
)

PREFIX: Final = "MINTSCOPE_"
DELIMITER: Final = "__"


class Section(BaseModel):
    """A part of the configuration, for one component."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChainConfig(Section):
    """Where blocks come from."""

    source: Literal["rpc", "files"] = Field(
        default="rpc", description="A JSON-RPC node, or block files."
    )
    rpc_url: Url = Field(
        default=SecretStr("http://127.0.0.1:8899"),
        description="The node. May hold the provider's key, so only its host is ever shown.",
    )
    rpc_headers: Headers = Field(
        default={},
        description="Headers the provider wants. In the environment: `Name: value, Name: value`.",
    )
    files: Paths = Field(
        default=(),
        description="Block files, read in this order: getBlock JSON lines, plain or gzip.",
    )
    start: Start = Field(
        default="latest",
        description='Where a new installation begins: "latest", "first" (the oldest block the node'
        " has) or a slot. An existing one goes on where it stopped.",
    )
    backfill_slots: int = Field(
        default=1_500,
        ge=0,
        description='How far before "latest" to begin; 1,500 slots are ten minutes.',
    )
    requests_in_flight: int = Field(
        default=10, ge=1, le=100, description="Blocks asked for at a time."
    )
    timeout_s: Seconds = Field(
        default=20.0, description="For one request, from first to last byte."
    )
    poll_interval_ms: int = Field(
        default=150,
        ge=10,
        le=60_000,
        description="Pause before asking again when there was no new block.",
    )
    gap_after_s: Seconds = Field(
        default=120.0,
        description="How long a block that must exist is asked for in vain before its slots are"
        " recorded as a gap.",
    )
    max_gap_slots: int = Field(
        default=216_000,
        ge=0,
        description="After a longer absence the slots missed become a gap instead of being caught"
        " up; 216,000 slots are a day; 0 always catches up.",
    )
    max_transaction_version: int = Field(
        default=0, ge=0, le=127, description="Newest transaction version to accept from the node."
    )


class MarketConfig(Section):
    """Which tokens are followed, and how much is kept of them."""

    track: Literal["list", "all"] = Field(
        default="list", description="Follow listed tokens only, or also all that reach the floor."
    )
    mints: Mints = Field(
        default=(),
        description="Token mints listed on a new installation, beside wrapped SOL; later"
        " `mintscope tokens add`.",
    )
    floor_swaps_per_day: Count = Field(
        default=100, description='With track "all": swaps that a token needs in a UTC day.'
    )
    floor_usd_per_day: Count = Field(
        default=10_000,
        description='With track "all": USD that a token needs to trade in that day too.',
    )
    dead_after_days: int = Field(
        default=7,
        ge=1,
        le=3_650,
        description='With track "all": days below the floor until dropped.',
    )
    retention_m1_hours: int = Field(
        default=72,
        ge=25,
        le=87_600,
        description="Minute candles kept; pressure reads the last 24 hours.",
    )
    retention_m5_hours: int = Field(
        default=336, ge=1, le=87_600, description="5-minute candles kept."
    )
    retention_m15_days: int = Field(
        default=45, ge=1, le=3_650, description="15-minute candles kept."
    )
    retention_h1_days: int = Field(default=180, ge=1, le=3_650, description="Hour candles kept.")
    live_mints_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Tokens held in memory, about 15 kB each."
    )


class ApiConfig(Section):
    """How clients are served."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 for every one."
    )
    port: Port = Field(default=8402, description="Port to listen on; 0 takes any free one.")
    origin: Origin = Field(
        default=None,
        description="The address clients use, as `https://api.example.org`; unset: where it"
        " listens.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks whose X-Forwarded-For is believed, as `10.0.0.0/8`.",
    )
    rate_limit_requests: Count = Field(
        default=30, description="Requests a client may make in a window."
    )
    rate_limit_window_s: int = Field(default=60, ge=1, le=DAY_S, description="That window.")
    health_limit_requests: Count = Field(default=120, description="Likewise, for /v1/health.")
    health_limit_window_s: int = Field(default=60, ge=1, le=DAY_S, description="That window.")
    degraded_after_s: Seconds = Field(
        default=30.0, description="Older data is served marked degraded."
    )
    stale_after_s: Seconds = Field(default=300.0, description="Older data is refused, and free.")
    poll_interval_ms: int = Field(
        default=50, ge=1, le=10_000, description="Pause before looking for new blocks in the store."
    )
    header_bytes_max: int = Field(
        default=16 * 1024,
        ge=1024,
        le=1024 * 1024,
        description="All headers of a request; more is 431.",
    )
    body_bytes_max: int = Field(
        default=64 * 1024, ge=1024, le=64 * 1024 * 1024, description="A request body; more is 413."
    )
    request_timeout_s: Seconds = Field(
        default=14.0, description="For a client to send its request."
    )
    answer_timeout_s: Seconds = Field(default=14.0, description="For a client to read its answer.")
    keep_alive_s: Seconds = Field(
        default=10.0, description="An idle connection is closed after this."
    )
    connections_max: int = Field(
        default=2_000, ge=1, le=100_000, description="Open connections in all."
    )
    connections_per_client_max: int = Field(
        default=256, ge=1, le=100_000, description="Open connections of one client address."
    )


class CreditsConfig(Section):
    """Prepaid credits."""

    pepper: Pepper = Field(
        default=None,
        description="Key of the hashes that credit tokens, application secrets and API keys are"
        " stored as, at least 64 hexadecimal digits. Unset: kept in the file `pepper` of data_dir,"
        " made at first use. BACK IT UP: without it all of them are void.",
    )


class PaymentsConfig(Section):
    """Selling: x402 payments on Solana, a request or a bundle of credits at a time."""

    enabled: bool = Field(
        default=False, description="Sell. The node of chain.rpc_url is asked to settle."
    )
    network: str = Field(
        default=MAINNET,
        pattern=r"^solana:[1-9A-HJ-NP-Za-km-z]{32}$",
        description="The chain, in CAIP-2, as demands for payment name it.",
    )
    asset: Address = Field(
        default=USDC, description="The payment token: its mint. Followed on a new installation."
    )
    asset_name: str = Field(
        default="USD Coin", min_length=1, max_length=64, description="Its name, for clients."
    )
    asset_symbol: str = Field(
        default="USDC", min_length=1, max_length=16, description="Its symbol, for clients."
    )
    decimals: Decimals = Field(default=6, description="Its decimals; compared with the mint.")
    token_program: TokenProgram = Field(
        default=TOKEN_PROGRAM, description="The program that owns the mint; compared likewise."
    )
    pay_to: OptionalAddress = Field(
        default=None,
        description="The treasury: the wallet that is paid. Its token account must exist; its key"
        " does not belong on this machine.",
    )
    fee_payer_file: File = Field(
        default=None,
        description="The Solana keypair file of the wallet that pays the network fees, about"
        " 10,001 lamports a payment. A hot key: keep little on it, and no tokens.",
    )
    fee_payer_key: Key = Field(
        default=None,
        description="That key itself instead of a file: the content of one, or base58.",
    )
    fee_payer_lamports_min: Lamports = Field(
        default=LAMPORTS_PER_SOL // 10,
        description="The doctor and the log warn when the fee payer has less.",
    )
    price_source: Literal["pinned", "market", "feed"] = Field(
        default="pinned",
        description="What the payment token is worth: payments.price_usd; its own market as"
        " followed here; or a feed.",
    )
    price_usd: Usd = Field(
        default=Decimal(1), description="The pinned price of one whole token, in USD."
    )
    price_feed_url: OptionalUrl = Field(
        default=None,
        description="A feed that answers as Pyth's Hermes does: /v2/updates/price/latest of one"
        " price id.",
    )
    pools: Pools = Field(
        default=(),
        description="The token's pools, whose reserves a market price needs: `vault of the token:"
        "vault of what it is traded for`, SOL, USDC or USDT.",
    )
    fee_share_max: Share = Field(
        default=FEE_SHARE_MAX,
        description="The share of a single request's price that the network fee of its payment may"
        " eat, at the price of SOL followed here; beyond, only bundles are sold. 1 is break-even,"
        " at 250 USD for a SOL; 0.5 is reached at 125.",
    )
    failures_per_hour_max: Count = Field(
        default=Budget().failures,
        description="Payments that may fail on chain within the hour, per payer; per client"
        " address, which may have many payers behind it, more than those that were good.",
    )
    in_flight_per_payer_max: Count = Field(
        default=Budget().in_flight_payer,
        description="Payments under way or failed, of a payer that has bought nothing within the"
        " hour; one more for each payment of it that was good.",
    )
    in_flight_per_address_max: Count = Field(
        default=Budget().in_flight_address,
        description="Likewise per client address, which may have many payers behind it.",
    )
    fees_per_hour_lamports: Lamports = Field(
        default=Budget().fee_lamports,
        description="Network fees of payments that failed on chain; beyond, nothing is sold. One"
        " payer or client address may put a tenth of them at risk, with payments under way.",
    )
    fees_in_flight_lamports: Lamports = Field(
        default=Budget().in_flight_fee_lamports,
        description="Network fees of payments under way, never more than the fee payer has. Who has"
        " bought nothing within 24 hours shares half of them; beyond, nothing is sold.",
    )


class AccountsConfig(Section):
    """Agents that sign up, and what they may ask how often."""

    signup_limit_requests: Count = Field(
        default=5,
        description="Applications a client may make in a window, new or known already; the clients"
        " of an IPv6 /48 together make four times as many.",
    )
    signup_limit_window_s: int = Field(default=HOUR_S, ge=1, le=DAY_S, description="That window.")
    exchange_limit_requests: Count = Field(
        default=1,
        description="Exchanges an e-mail address may try in a window, with the right secret; and"
        " with any other, for each client.",
    )
    exchange_limit_window_s: int = Field(default=5, ge=1, le=DAY_S, description="That window.")
    limit_requests: Count = Field(
        default=60, description="Requests under /api a client may make in a window, whatever for."
    )
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S, description="That window.")
    key_limit_requests: Count = Field(
        default=60, description="Requests an API key may make in a window."
    )
    key_limit_window_s: int = Field(default=60, ge=1, le=DAY_S, description="That window.")


class WebConfig(Section):
    """Pages for people, on the listener of the api."""

    enabled: bool = Field(default=True, description="Serve them.")
    session_idle_minutes: int = Field(
        default=30, ge=1, le=10_080, description="An unused session ends after this."
    )
    session_hours_max: int = Field(
        default=12, ge=1, le=8_760, description="Any session ends after this."
    )
    guesses_max: Count = Field(
        default=10,
        description="Wrong passwords for an e-mail address from one client in 15 minutes; those of"
        " other clients do not count.",
    )
    client_guesses_max: Count = Field(
        default=50, description="Wrong passwords from one client in 15 minutes, for whomever."
    )
    sign_ups_per_hour_max: Count = Field(
        default=20, description="Accounts that a client may make in an hour."
    )
    admin_host: str = Field(
        default="127.0.0.1", description="Address of a listener for administrators alone."
    )
    admin_port: OptionalPort = Field(
        default=None,
        description="Its port. Unset: there is none, administration is on the listener of the api.",
    )


class MailConfig(Section):
    """Letters to applicants and people."""

    delivery: Literal["none", "smtp", "page"] = Field(
        default="none",
        description="smtp: by the server named here; none: letters wait in the outbox; page: they"
        " are shown at /mailbox to everyone, for demos on the loopback address only.",
    )
    host: str = Field(default="127.0.0.1", description="The mail server.")
    port: Port = Field(default=587, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="How the connection is protected; none only to the loopback address.",
    )
    username: str = Field(default="", description="Sign in with this name; empty: do not.")
    password: OptionalSecret = Field(default=None, description="And this password.")
    sender: Mailbox = Field(
        default="mintscope@localhost",
        description="The address letters come from, as `no-reply@example.org`.",
    )
    timeout_s: float = Field(
        default=20.0,
        gt=0,
        le=50,
        allow_inf_nan=False,
        description="For one letter; below the minute after which another process may send it.",
    )


class LogConfig(Section):
    """Log lines, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least that is logged."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: for people on a terminal, JSON lines elsewhere."
    )


class MetricsConfig(Section):
    """Prometheus metrics, each process on a port of its own."""

    enabled: bool = Field(default=True, description="Serve GET /metrics.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    ingest_port: Port = Field(default=9464, description="Port of the ingest process.")
    api_port: Port = Field(default=9465, description="Port of the api process.")


class Config(BaseSettings):
    """Everything an operator decides."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        enable_decoding=False,
        frozen=True,
        extra="forbid",
    )

    data_dir: Path = Field(
        default=Path("mintscope-data"),
        description="The folder of all files; one installation each.",
    )
    chain: ChainConfig = ChainConfig()
    market: MarketConfig = MarketConfig()
    api: ApiConfig = ApiConfig()
    credits: CreditsConfig = CreditsConfig()
    payments: PaymentsConfig = PaymentsConfig()
    accounts: AccountsConfig = AccountsConfig()
    web: WebConfig = WebConfig()
    mail: MailConfig = MailConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()

    @override
    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, which arrives as arguments."""
        return env_settings, init_settings
