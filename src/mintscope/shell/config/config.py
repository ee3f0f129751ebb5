"""The whole configuration."""

from pathlib import Path
from typing import Final

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from mintscope.shell.config.sections import (
    AccountsConfig,
    ApiConfig,
    ChainConfig,
    CreditsConfig,
    LogConfig,
    MailConfig,
    MarketConfig,
    MetricsConfig,
    PaymentsConfig,
    WebConfig,
)

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
        use_attribute_docstrings=True,
    )

    data_dir: Path = Path("mintscope-data")
    """The folder of all files; one installation each."""
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
