"""More sections of the configuration, and `Config`, which has all sections."""

from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from mintscope.app.config import config as sections
from mintscope.app.config import values
from mintscope.app.config.config import Section
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope.market.shard import parse_shard
from mintscope.payments.ports import Budget
from mintscope.payments.pricing import FEE_SHARE_MAX
from mintscope.payments.protocol.envelope import MAINNET, TOKEN_PROGRAM
from mintscope.solana.blocks import DOLLARS, LAMPORTS_PER_SOL, STAKING_TOKENS, USDC


class PaymentsConfig(Section):
    """Sales for x402 payments on Solana: single requests and bundles of credits."""

    enabled: bool = False
    """Whether requests and credits are sold; payments settle through chain.rpc_url."""
    network: values.SolanaNetwork = MAINNET
    """The chain, in CAIP-2, as it stands in a 402 response."""
    asset: values.MintAddress = USDC
    """The payment token: its mint. Followed on a new installation."""
    asset_name: str = Field(default="USD Coin", min_length=1, max_length=64)
    """Name of the payment token, for clients."""
    asset_symbol: str = Field(default="USDC", min_length=1, max_length=16)
    """Symbol of the payment token, for clients."""
    decimals: values.Decimals = 6
    """Decimals of the payment token; compared with the mint."""
    token_program: values.TokenProgram = TOKEN_PROGRAM
    """The program that owns the mint of the payment token; compared with the mint."""
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
    failed_trials_per_minute_max: values.Count = 1_200
    """Payments that fail before they are sent, and payments that are written out for wallets, of
    all clients together in any 60 seconds; each asks the node up to four questions, and up to 14
    if the node does not know its blockhash. A tenth of it is the most of one network, a quarter is
    kept for wallets and addresses that have paid before and a quarter for clients that come for
    the first time. Beyond it payments are answered 503."""
    price_source: Literal["pinned", "market", "feed"] = "pinned"
    """The price of the payment token: payments.price_usd; its own market as followed here; or a
    feed."""
    price_usd: values.Usd = Decimal(1)
    """The pinned price of one whole token, in USD."""
    price_feed_url: values.OptionalUrl = None
    """A feed that answers as Pyth's Hermes does: /v2/updates/price/latest of one price id."""
    price_feed_url_file: values.File = None
    also_usdc: bool = False
    """Whether USDC is taken beside the payment token, at 1 USD by definition: clients choose the
    token that they pay in. The treasury's token account for USDC must exist."""
    usdc_mint: values.MintAddress = USDC
    """The mint of USDC on the chain of payments: another one on devnet."""
    pools: values.Pools = ()
    """The token's pools, whose reserves a market price needs: `vault of the token:vault of what it
    is traded for`, SOL or one of `market.dollars`."""
    fee_share_max: values.Share = FEE_SHARE_MAX
    """The share of a single request's price that the network fee of its payment may take, at the
    price of SOL followed here; beyond, only bundles are sold. 1 is break-even, at 250 USD for a
    SOL; 0.5 is reached at 125."""
    failures_per_hour_max: values.Count = Budget().failures
    """Payments that may fail on chain within the hour, per payer; per client address, which may
    stand for many payers, more than those that succeeded."""
    in_flight_per_new_payer_max: values.Count = Budget().in_flight_new_payer
    """Payments under way of a payer that has bought nothing within 24 hours."""
    in_flight_per_payer_max: values.Count = Budget().in_flight_payer
    """Payments under way or failed, of a payer that has bought nothing within the hour; each
    purchase of the payer within the hour allows one more."""
    in_flight_per_address_max: values.Count = Budget().in_flight_address
    """The same, per client address, which may stand for many payers."""
    fees_per_hour_lamports: values.Lamports = Budget().fee_lamports
    """Network fees of payments that failed on chain within the hour; beyond, nothing is sold.
    Payers whose payments fail more often than they were good within 24 hours share half of them.
    One payer or client address may put a tenth of them at risk, with payments under way."""
    fees_in_flight_lamports: values.Lamports = Budget().in_flight_fee_lamports
    """Network fees of payments under way, never more than the fee payer has. Payers that
    bought nothing within 24 hours share half of them; beyond, nothing is sold."""


def _as_shard(text: str) -> str:
    try:
        return str(parse_shard(text))
    except ValueError as error:
        # `load._problem` adds the value to the message.
        raise ValueError(str(error).partition("; was ")[0]) from error


class MarketConfig(Section):
    """The tracked tokens, and the data that is kept of them."""

    track: Literal["list", "all"] = "list"
    """Follow listed tokens only, or also all that reach the floor."""
    mints: values.Mints = ()
    """Token mints listed on a new installation, beside wrapped SOL; later `mintscope tokens
    add`."""
    dollars: values.Dollars = tuple(sorted(DOLLARS))
    """Stable mints of 6 decimals that count as one dollar while they are within 1 % of the median
    of all of them."""
    staking_tokens: values.Mints = tuple(sorted(STAKING_TOKENS))
    """Liquid staking tokens that price the tokens traded against them."""
    shard: Annotated[str, AfterValidator(_as_shard)] = "1/1"
    """The part of all tokens that this ingest writes, as NUMBER/COUNT: each part has a `store` of
    its own, and needs track "all". `mintscope api` cannot read several parts yet: see
    docs/operating/scale.md."""
    floor_swaps_per_day: values.Count = 100
    """With track "all": swaps that a token needs in a UTC day."""
    floor_usd_per_day: values.Count = 10_000
    """With track "all": USD that a token needs to trade in that day too."""
    dead_after_days: int = Field(default=7, ge=1, le=3_650)
    """With track "all": days below the floor until dropped."""
    retention_m1_hours: int = Field(default=72, ge=25, le=87_600)
    """Minute candles kept; pressure reads the last 24 hours."""
    retention_m5_hours: int = Field(default=336, ge=1, le=87_600)
    """5-minute candles kept."""
    retention_m15_days: int = Field(default=45, ge=1, le=3_650)
    """15-minute candles kept."""
    retention_h1_days: int = Field(default=180, ge=1, le=3_650)
    """Hour candles kept."""
    retention_swaps_minutes: int = Field(default=15, ge=15, le=44_640)
    """Single swaps kept behind the newest that is final, for /v1/token/.../swaps and reports of the
    past; about 300 bytes each, of every token that is followed."""
    live_mints_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Tokens held in memory, about 15 kB each."""


class BackupConfig(Section):
    """Settings of `mintscope backup`, which a timer of systemd runs."""

    to: values.File = None
    """The folder in which each backup becomes a folder of its own."""
    kept_max: int = Field(default=24, ge=1, le=10_000)
    """The number of newest backups that are kept; of older ones one a day is kept."""
    keep_days: int = Field(default=30, ge=0, le=3_650)
    """The number of newest days with a backup for which the last backup of the day is kept."""
    secrets_to: values.File = None
    """The folder that `pepper` and `roots` are copied into, apart from the data: a restore needs
    both. Unset: each backup has `pepper` and `roots`."""


class TracingConfig(Section):
    """Traces of requests and settlements, sent by OpenTelemetry; needs the extra `otel`."""

    otlp_url: values.OptionalUrl = None
    """The URL of a collector of OTLP over HTTP, as `http://127.0.0.1:4318`. Unset: no traces."""
    otlp_url_file: values.File = None
    share_max: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    """The share of requests that are traced, chosen at random."""


class OperatorConfig(Section):
    """The operator of the service, shown in page footers, on /operator and on receipts."""

    name: str = Field(default="", max_length=100)
    """Name of the person or company that sells."""
    contact: values.Contact = None
    """Where customers write to, `mailto:help@example.org` or an https address."""
    terms: values.PageUrl = None
    """The https address of the terms of use."""
    privacy: values.PageUrl = None
    """The https address of the privacy notice."""
    refunds: str = Field(default="", max_length=2_000)
    """When payments are refunded, in plain text; shown at /operator."""


class SignalsConfig(Section):
    """Alerts of accounts: /v1/signals."""

    enabled: bool = True
    """Evaluate alerts and send their webhooks. If disabled, alerts are kept but do not fire."""
    per_account_max: values.Count = 20
    """Alerts of an account."""
    of_all_max: int = Field(default=10_000, ge=1, le=100_000)
    """Evaluated alerts of all accounts; inactive ones do not count."""
    mints_max: int = Field(default=1_000, ge=1, le=100_000)
    """Tokens that all alerts together look at, about 15 kB of memory each; 30 kB each if an alert
    looks at s15, m30, h4 or d1."""
    emails_per_day_max: values.Count = 50
    """E-mails about alerts to one account in 24 hours."""
    emails_per_alert_max: values.Count = 20
    """E-mails about one alert in 24 hours."""
    email_pause_s: int = Field(default=300, ge=0, le=24 * HOUR_S)
    """Pause between two e-mails of one alert; what fires meanwhile goes into the next."""
    firings_per_hour_max: values.Count = 30
    """Firings of an alert that are sent in an hour, which begins with the first. Nine times as many
    are listed, and not sent."""
    firings_kept_max: values.Count = 1_000
    """Firings that are kept of an alert, the newest; older ones go within an hour."""
    poll_interval_ms: int = Field(default=250, ge=10, le=60_000)
    """Pause between two evaluations of the newest blocks."""
    takeover_s: float = Field(default=10.0, ge=1, le=300, allow_inf_nan=False)
    """How long after the end of the process that evaluates alerts another one takes over."""
    webhook_timeout_s: float = Field(default=10.0, gt=0, le=50, allow_inf_nan=False)
    """Timeout of one webhook; 5 seconds later another process may send it."""
    webhook_retry_s: int = Field(default=24 * HOUR_S, ge=60, le=30 * 24 * HOUR_S)
    """How long a webhook is tried again before it is disabled."""
    webhooks_waiting_max: int = Field(default=1_000, ge=1, le=100_000)
    """Waiting webhooks of one alert; beyond it the oldest except the first are dropped."""
    webhooks_per_minute_max: values.Count = 60
    """Webhooks to one host, or to one address, in any 60 seconds, of all accounts; an account sends
    half as many, to all hosts together."""
    webhook_loopback: bool = False
    """Send webhooks to addresses of this machine, too, in plain http: for demos and tests."""
    telegram_bot: values.BotName = ""
    """The user name of your Telegram bot, without @. With it, alerts can be sent to Telegram."""
    telegram_token: values.OptionalSecret = None
    """The token of that bot, as @BotFather shows it."""
    telegram_token_file: values.File = None
    telegram_url: values.BotUrl = "https://api.telegram.org"
    """The server of the Bot API."""


class GeyserConfig(Section):
    """The gRPC servers for chain.source "geyser"; blocks that they lack come from chain.rpc_url."""

    urls: values.Urls = ()
    """The servers, in order of preference; https means TLS. Only hosts are ever shown."""
    urls_file: values.File = None
    """The file that holds urls instead, one a line."""
    x_tokens: values.Secrets = ()
    """The x-tokens of the providers: one for each of urls, or one for all."""
    x_tokens_file: values.File = None
    """The file that holds x_tokens instead, one a line."""
    ca_file: values.File = None
    """Certificates (PEM): the certificate of each server must be one of them, or be signed by one.
    Unset: the certificates that gRPC trusts."""


class ListsConfig(Section):
    """The list of tokens, and other free data."""

    limit_requests: values.Count = 60
    """Requests to the list, to the free data of a token beside its report, and to the demo answers,
    that a client address may make in a window."""
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    refresh_s: values.Seconds = 2.0
    """The list is brought up to date this often, and at once if something was folded and finality
    follows within seconds."""


class StreamsConfig(Section):
    """Streams of clients: GET /v1/stream of the api process."""

    open_max: values.Count = 1_000
    """Open streams of all clients together; each is one of the connections that api.connections_max
    counts."""
    per_account_max: values.Count = 20
    """Open streams of one credit token, or of the account of an API key."""
    mints_max: int = Field(default=50, ge=1, le=50)
    """Tokens of one stream."""


class DexConfig(Section):
    """The programs that are read in addition to those that mintscope knows."""

    programs: values.Programs = ()
    """Programs that are read by what moved, each `NAME:ID:DISCRIMINATORS:POOL_ACCOUNT`. The first 1
    or 8 bytes of its swap instructions, in hex, separated by +; without them every instruction is
    read. Then the position of the account that names the pool, if one does."""


class McpConfig(Section):
    """The API for MCP clients, at /mcp on the listener of the api."""

    enabled: bool = True
    """Serve MCP clients, if the extra `mcp` is installed."""

    @property
    def is_served(self) -> bool:
        """Whether MCP clients are served: whether MCP is enabled and the extra is installed."""
        return self.enabled and find_spec("mcp") is not None


PREFIX: Final = "MINTSCOPE_"
DELIMITER: Final = "__"


class Config(BaseSettings):
    """All settings of an installation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        # Otherwise pydantic-settings would expect JSON for lists; the validators in `values` split
        # texts.
        enable_decoding=False,
        frozen=True,
        extra="forbid",
    )

    data_dir: values.Folder = Path("mintscope-data")
    """The folder of all files; one installation each."""
    data_dir_may_be_open: bool = False
    """Start although other users of the machine may look into data_dir."""
    store: values.StoreUrl = None
    """A PostgreSQL (15 or newer) that holds market, credits, payments and accounts, as
    `postgresql://user:password@host:5432/database`; needs the extra `postgres`. Unset: SQLite
    files in data_dir. A password of fewer than 12 characters, or 6 different ones, is refused."""
    store_file: values.File = None
    replicas_max: int = Field(default=1, ge=1, le=1_000)
    """The most api processes that run. While the PostgreSQL of `store`, which counts limits, is
    away, each admits the limit divided by this, and at least 1."""
    drain_s: float = Field(default=0.0, ge=0, le=60)
    """How long an api process that gets SIGTERM says that it is not ready, before it stops
    listening: time for a balancer to send clients elsewhere."""
    chain: sections.ChainConfig = sections.ChainConfig()
    geyser: GeyserConfig = GeyserConfig()
    dex: DexConfig = DexConfig()
    market: MarketConfig = MarketConfig()
    api: sections.ApiConfig = sections.ApiConfig()
    streams: StreamsConfig = StreamsConfig()
    signals: SignalsConfig = SignalsConfig()
    credits: sections.CreditsConfig = sections.CreditsConfig()
    payments: PaymentsConfig = PaymentsConfig()
    accounts: sections.AccountsConfig = sections.AccountsConfig()
    lists: ListsConfig = ListsConfig()
    mcp: McpConfig = McpConfig()
    web: sections.WebConfig = sections.WebConfig()
    operator: OperatorConfig = OperatorConfig()
    mail: sections.MailConfig = sections.MailConfig()
    backup: BackupConfig = BackupConfig()
    log: sections.LogConfig = sections.LogConfig()
    metrics: sections.MetricsConfig = sections.MetricsConfig()
    tracing: TracingConfig = TracingConfig()
    watch: sections.WatchConfig = sections.WatchConfig()

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
        """Give the environment priority over the file, whose settings are passed as arguments."""
        return env_settings, init_settings
