"""The whole configuration."""

from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from mintscope.shell.config import sections, values
from mintscope.shell.config.dex import DexConfig
from mintscope.shell.config.geyser import GeyserConfig
from mintscope.shell.config.lists import ListsConfig
from mintscope.shell.config.market import MarketConfig
from mintscope.shell.config.mcp import McpConfig
from mintscope.shell.config.operations import BackupConfig, OperatorConfig, TracingConfig
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.signals import SignalsConfig
from mintscope.shell.config.streams import StreamsConfig

PREFIX: Final = "MINTSCOPE_"
DELIMITER: Final = "__"


class Config(BaseSettings):
    """Everything an operator decides."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        enable_decoding=False,
        frozen=True,
        extra="forbid",
    )

    data_dir: Path = Path("mintscope-data")
    """The folder of all files; one installation each."""
    data_dir_may_be_open: bool = False
    """Start although other users of the machine may look into data_dir."""
    store: values.StoreUrl = None
    """A PostgreSQL (15 or newer) that holds market, credits, payments and accounts, as
    `postgresql://user:password@host:5432/database`; needs the extra `postgres`. Unset: two SQLite
    files in data_dir. A password of fewer than 12 characters, or 6 different ones, is refused."""
    store_file: values.File = None
    """The file that holds store instead."""
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
        """Let the environment win over the file, which arrives as arguments."""
        return env_settings, init_settings
