"""The settings that all api processes of an installation have in common."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import ApiConfig, Section

# The products, their price and recipient; where; and how often.
OF_PAYMENTS: Final = "payments"
OF_ACCOUNTS: Final = "accounts"
OF_API: Final = ("origin", *(name for name in ApiConfig.model_fields if "limit_" in name))


def common_settings(config: Config) -> Mapping[str, str]:
    """Return them as texts by name; secrets as hashes."""
    common = {"replicas_max": f"{config.replicas_max}"}
    common |= _section(OF_PAYMENTS, config.payments) | _section(OF_ACCOUNTS, config.accounts)
    return common | {f"api.{name}": _told(getattr(config.api, name)) for name in OF_API}


def _section(name: str, section: Section) -> dict[str, str]:
    return {f"{name}.{field}": _told(value) for field, value in section}


def _told(value: object) -> str:
    if isinstance(value, SecretStr):
        return _hashed(value.get_secret_value().encode())
    if isinstance(value, Path) and value.is_file():  # where it is does not matter
        return _hashed(value.read_bytes())
    return str(value)


def _hashed(secret: bytes) -> str:
    return f"sha256:{sha256(secret).hexdigest()}"
