"""The whole configuration."""

from pathlib import Path
from typing import Final

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from mintscope.shell.config import sections
from mintscope.shell.config.dex import DexConfig
from mintscope.shell.config.geyser import GeyserConfig

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
    data_dir_may_be_open: bool = False
    """Start although other users of the machine may look into data_dir."""
    chain: sections.ChainConfig = sections.ChainConfig()
    geyser: GeyserConfig = GeyserConfig()
    dex: DexConfig = DexConfig()
    market: sections.MarketConfig = sections.MarketConfig()
    api: sections.ApiConfig = sections.ApiConfig()
    credits: sections.CreditsConfig = sections.CreditsConfig()
    payments: sections.PaymentsConfig = sections.PaymentsConfig()
    accounts: sections.AccountsConfig = sections.AccountsConfig()
    web: sections.WebConfig = sections.WebConfig()
    mail: sections.MailConfig = sections.MailConfig()
    log: sections.LogConfig = sections.LogConfig()
    metrics: sections.MetricsConfig = sections.MetricsConfig()

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
