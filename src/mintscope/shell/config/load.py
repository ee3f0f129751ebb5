"""The configuration as read, where each value came from, and what is wrong with it."""

import ast
import difflib
import inspect
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mintscope.core.market.shards.shard import WHOLE
from mintscope.shell.config.config import DELIMITER, PREFIX, Config
from mintscope.shell.config.geyser import GeyserConfig
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.secrecy import OpenSecret, expect_closed, guessable, kept_secret
from mintscope.shell.config.secret_files import (
    UnusableSecretFile,
    read_secret,
    secret_files,
    with_secrets,
)
from mintscope.shell.config.sections import ApiConfig, ChainConfig, Section
from mintscope.shell.config.values import is_loopback

FILE_VARIABLE: Final = "MINTSCOPE_CONFIG"
# Variables of `mintscope get` and its siblings: no other command reads them.
CLIENT_VARIABLES: Final = ("MINTSCOPE_URL", "MINTSCOPE_CREDENTIAL", "MINTSCOPE_CREDENTIAL_FILE")
DEFAULT_FILE: Final = Path("mintscope.toml")


class ConfigError(Exception):
    """The configuration cannot be used; `problems` says why, one message each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Origin(StrEnum):
    """Where a value came from."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    SECRET_FILE = "file of a secret"  # noqa: S105 - no password


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the configuration, as `section.name`; *model* declares it."""

    key: str
    field: FieldInfo
    model: type[Config | Section]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return _variable(self.key)

    @property
    def meaning(self) -> str:
        """Its meaning, in one line."""
        return _meanings(self.model).get(self.key.rpartition(".")[2], "")

    def value(self, config: Config) -> Any:
        """Return what *config* says."""
        value: Any = config
        for name in self.key.split("."):
            value = getattr(value, name)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The configuration of this process, its TOML *file* if any, and where each part came from."""

    config: Config
    file: Path | None
    origins: Mapping[str, Origin]


def settings() -> Iterator[tuple[str, type[Section] | None, Sequence[Setting]]]:
    """Yield (section, its class, its settings); the section of no name first."""
    top = {key: field for key, field in Config.model_fields.items() if not _section(field)}
    yield "", None, [Setting(key, field, Config) for key, field in top.items()]
    for name, field in Config.model_fields.items():
        section = _section(field)
        if section is not None:
            fields = section.model_fields.items()
            yield name, section, [Setting(f"{name}.{key}", each, section) for key, each in fields]


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", DELIMITER).upper()


@cache
def _meanings(model: type[Config | Section]) -> dict[str, str]:
    """Return the text below each setting of *model*, in one line.

    pydantic would read it from the source, too, but in every process, which takes 30 ms.
    """
    (declared,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        setting.target.id: " ".join(ast.literal_eval(text.value).split())
        for setting, text in pairwise(declared.body)
        if isinstance(setting, ast.AnnAssign)
        and isinstance(setting.target, ast.Name)
        and isinstance(text, ast.Expr)
    }


def _section(field: FieldInfo) -> type[Section] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def load(path: Path | None = None) -> Loaded:
    """Read the configuration.

    path     the TOML file; else the one MINTSCOPE_CONFIG names, else mintscope.toml if it is there
    Raises ConfigError with every problem found.
    """
    environ = {
        name.upper(): value
        for name, value in os.environ.items()  # noqa: TID251 - the only reader of it
        if name.upper().startswith(PREFIX)
    }
    named = path or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    file = named or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    table = {} if file is None else _read(file)
    known = {setting.key: setting for _, _, group in settings() for setting in group}
    problems = _unknown_variables(environ, known)
    origins = {key: _origin(setting, table, environ) for key, setting in known.items()}
    try:
        config = Config(**table)
        secrets, unread = _secrets(config, known, origins)
        problems += unread
        if secrets:
            config = Config(**with_secrets(table, secrets))
            origins |= dict.fromkeys(secrets, Origin.SECRET_FILE)
    except ValidationError as error:
        problems += [_problem(details, file, environ, known) for details in error.errors()]
    else:
        problems += _contradictions(config)
        problems += guessable(config)
    if file is not None and not problems:
        problems += _open_file(file, (key for key in kept_secret(config) if origins[key] == "file"))
    if problems:
        raise ConfigError(sorted(set(problems)))
    return Loaded(config=config, file=file, origins=origins)


def _secrets(
    config: Config, known: Mapping[str, Setting], origins: Mapping[str, Origin]
) -> tuple[dict[str, str], list[str]]:
    """Return the secrets of files, by key, and the problems of the files."""
    secrets: dict[str, str] = {}
    problems = []
    for key, path in secret_files(known, lambda each: known[each].value(config)):
        if origins[key] is not Origin.DEFAULT:
            problems.append(f"{key}: expected it or {key}_file; both are set")
            continue
        try:
            secrets[key] = read_secret(path)
        except UnusableSecretFile as error:
            problems.append(f"{key}_file: {error}")
    return secrets, problems


def child_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with *settings* in place of every setting in it."""
    inherited = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - handed on, not read
        if not name.upper().startswith(PREFIX)
    }
    return inherited | dict(settings)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as cause:
        raise ConfigError([f"{file}: cannot be read: {cause.strerror}"]) from cause
    except (ValueError, RecursionError) as cause:  # bad TOML, bad UTF-8, 5,000 digits, nesting
        raise ConfigError([f"{file}: expected TOML; {cause}"]) from cause


def _unknown_variables(environ: Mapping[str, str], known: Mapping[str, Setting]) -> list[str]:
    """Return a problem for each variable that no setting reads; typed wrong, it would be lost."""
    variables = [setting.variable for setting in known.values()]
    # A name that begins like a section is reported by the section itself.
    sections = tuple(f"{PREFIX}{name.upper()}" for name, _, _ in settings() if name)
    return [
        f"{name}: no such setting{_nearest(name, variables)}"
        for name in environ
        if name not in {*variables, FILE_VARIABLE, *CLIENT_VARIABLES, *sections}
        and not name.startswith(tuple(section + DELIMITER for section in sections))
    ]


def _problem(
    details: ErrorDetails,
    file: Path | None,
    environ: Mapping[str, str],
    known: Mapping[str, Setting],
) -> str:
    """Return what is wrong with a key, for the operator and without the value of a secret."""
    key = _key(details["loc"], known)
    variable = _variable(key)
    where = f"{variable} (environment)" if variable in environ else f"{key} ({file})"
    if details["type"] == "extra_forbidden":
        variables = [setting.variable for setting in known.values()]
        nearest = _nearest(variable, variables) if variable in environ else _nearest(key, [*known])
        return f"{where}: no such setting{nearest}"
    message = details["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be ", "expected ")
    if details["type"] in {"model_type", "dict_type"}:
        message = "expected a table of settings"
    is_secret = key in known and "Secret" in str(known[key].field.annotation)
    was = "" if is_secret else f"; was {details['input']!r:.80}"
    return f"{where}: {message}{was}"


def _key(location: Sequence[int | str], known: Mapping[str, Setting]) -> str:
    """Return the setting at *location*: what is below one, as a list item, is not a key."""
    parts = [str(part) for part in location]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in known:
            return ".".join(parts[:length])
    return ".".join(parts)


def _nearest(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""


def _contradictions(config: Config) -> list[str]:
    problems = []
    if config.chain.source == "files" and not config.chain.files:
        problems.append('chain.files: expected at least one file with chain.source "files"')
    if config.chain.source == "geyser":
        problems += _unstreamable(config.geyser)
    if config.api.degraded_after_s > config.api.stale_after_s:
        problems.append("api.degraded_after_s: expected at most api.stale_after_s")
    if config.metrics.enabled and 0 != config.metrics.ingest_port == config.metrics.api_port:
        problems.append("metrics.api_port: expected another port than metrics.ingest_port")
    metrics_ports = {config.metrics.ingest_port, config.metrics.api_port} - {0}
    if config.metrics.enabled and config.api.port in metrics_ports:
        problems.append("api.port: expected another port than those of metrics")
    if config.market.shard != str(WHOLE) and config.market.track != "all":
        problems.append('market.shard: expected market.track "all", so that every pool is logged')
    if config.payments.enabled:
        problems += _unsellable(config.payments, config.chain)
    return problems + _unsafe(config)


def _open_file(file: Path, secrets: Iterable[str]) -> list[str]:
    """Return a problem if others may read *file*, in which the settings *secrets* are."""
    if not any(True for _ in secrets):
        return []
    try:
        expect_closed(file)
    except OpenSecret as error:
        return [str(error)]
    return []


def _unstreamable(geyser: GeyserConfig) -> list[str]:
    """Return what is missing for a stream."""
    problems = []
    if not geyser.urls:
        problems.append('geyser.urls: expected at least one server with chain.source "geyser"')
    if len(geyser.x_tokens) not in {0, 1, len(geyser.urls)}:
        problems.append("geyser.x_tokens: expected one for all of geyser.urls, or one for each")
    if geyser.ca_file is not None and not os.access(geyser.ca_file, os.R_OK):
        problems.append(f"geyser.ca_file: expected a file that can be read; was {geyser.ca_file}")
    if find_spec("grpc") is None or find_spec("google") is None:
        problems.append(
            'chain.source: "geyser" needs grpcio and protobuf: pip install --require-hashes'
            " -r requirements/geyser.txt, a file of mintscope's sources"
        )
    return problems


def _unsafe(config: Config) -> list[str]:
    """Return the problems that would expose e-mails or passwords."""
    problems = []
    if config.mail.delivery == "page" and _is_reachable(config.api):
        problems.append(
            'mail.delivery: expected "smtp" or "none" where others can reach the api (api.host,'
            ' api.origin, api.trusted_proxies): "page" shows every e-mail, and the links in it, to'
            " every client"
        )
    is_in_clear = config.mail.delivery == "smtp" and config.mail.security == "none"
    if is_in_clear and not is_loopback(config.mail.host):
        problems.append('mail.security: expected "starttls" or "tls" for a mail.host elsewhere')
    taken = {config.api.port}
    if config.metrics.enabled:
        taken |= {config.metrics.ingest_port, config.metrics.api_port}
    if config.web.admin_port is not None and config.web.admin_port in taken - {0}:
        problems.append("web.admin_port: expected another port than those of api and metrics")
    return problems


def _is_reachable(api: ApiConfig) -> bool:
    """Return whether clients of other machines are served, directly or through a proxy."""
    origin_host = "localhost" if api.origin is None else urlsplit(api.origin).hostname or ""
    hosts_are_own = is_loopback(api.host) and is_loopback(origin_host)
    return not hosts_are_own or bool(api.trusted_proxies)


def _unsellable(payments: PaymentsConfig, chain: ChainConfig) -> list[str]:
    """Return what is missing for selling."""
    problems = []
    if payments.pay_to is None:
        problems.append("payments.pay_to: expected the wallet that is paid")
    if (payments.fee_payer_file is None) == (payments.fee_payer_key is None):
        problems.append("payments.fee_payer_file: expected it or payments.fee_payer_key")
    if payments.price_source == "feed" and payments.price_feed_url is None:
        problems.append('payments.price_feed_url: expected with payments.price_source "feed"')
    if payments.price_source == "market" and not payments.pools:
        problems.append('payments.pools: expected with payments.price_source "market"')
    if payments.price_source == "market" and chain.source == "files":
        problems.append('payments.price_source: expected another with chain.source "files"')
    return problems


def _origin(setting: Setting, table: Mapping[str, Any], environ: Mapping[str, str]) -> Origin:
    below = setting.variable + DELIMITER
    if any(name == setting.variable or name.startswith(below) for name in environ):
        return Origin.ENVIRONMENT
    part: Any = table
    for name in setting.key.split("."):
        if not isinstance(part, Mapping) or name not in part:
            return Origin.DEFAULT
        part = part[name]
    return Origin.FILE
