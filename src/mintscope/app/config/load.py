"""Configuration from file, environment and secret files.

For a secret setting `x`, there may be a setting `x_file`, which names a file with the secret.  The
files are read once, together with the configuration.
"""

import ast
import difflib
import inspect
import os
import stat
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mintscope.app.config.config import ApiConfig, ChainConfig, Section
from mintscope.app.config.groups import DELIMITER, PREFIX, Config, GeyserConfig, PaymentsConfig
from mintscope.app.config.validation_errors import expectation
from mintscope.app.config.values import is_loopback
from mintscope.app.stores.folder import ROOTS_FILE, load_roots
from mintscope.kit import credentials
from mintscope.kit.errors import NeedsOperator, UnusablePepper
from mintscope.market.shard import WHOLE
from mintscope_client.keypair import parse_keypair

# Permissions that a secret file must not give: its owner may be root, and its group may read it.
OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


def guessable(config: Config) -> list[str]:
    """Return a message about each secret of *config* that can be guessed; it shows no secret.

    Raises UnusablePepper if roots in data_dir could sign in place of a guessable pepper, but are
    unusable.
    """
    return [f"{key}: expected a secret of your own; {flaw}" for key, flaw in _flaws(config) if flaw]


def _flaws(config: Config) -> Iterator[tuple[str, str | None]]:
    """Yield (key, flaw) for secrets in settings; the flaw is None if a secret has no flaw."""
    pepper = config.credits.pepper
    fee_payer = config.payments.fee_payer_key
    if pepper is not None:
        flaw = credentials.flaw_of_key(bytes.fromhex(pepper.get_secret_value()))
        if flaw is not None and not _has_root(config):
            yield "credits.pepper", flaw
    if fee_payer is not None:
        seed = parse_keypair(fee_payer.get_secret_value()).secret()
        yield "payments.fee_payer_key", credentials.flaw_of_key(seed)
    for password in credentials.passwords_in(_text(config.store)):
        yield "store", credentials.flaw_of_password(password)
    for key, urls in _urls(config):
        if any(credentials.has_example(_text(url)) for url in urls):
            yield key, credentials.IS_EXAMPLE
    for key, texts in _issued(config):
        if any(credentials.is_example(_text(text)) for text in texts):
            yield key, credentials.IS_EXAMPLE


def _has_root(config: Config) -> bool:
    """Return whether there are roots, which sign in the pepper's place.  Raises UnusablePepper."""
    return bool(config.credits.roots or load_roots(config.data_dir / ROOTS_FILE))


def _urls(config: Config) -> Iterator[tuple[str, Iterable[SecretStr | None]]]:
    yield "chain.rpc_url", [config.chain.rpc_url]
    yield "chain.second_rpc_url", [config.chain.second_rpc_url]
    yield "geyser.urls", config.geyser.urls
    yield "payments.price_feed_url", [config.payments.price_feed_url]
    yield "tracing.otlp_url", [config.tracing.otlp_url]


def _issued(config: Config) -> Iterator[tuple[str, Iterable[SecretStr | None]]]:
    """Yield the key and the values of each setting for secrets that other services issue.

    Such a secret is refused only if it is an example from the documents.
    """
    yield "mail.password", [config.mail.password]
    yield "signals.telegram_token", [config.signals.telegram_token]
    yield "geyser.x_tokens", config.geyser.x_tokens
    yield "chain.rpc_headers", config.chain.rpc_headers.values()


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def kept_secret(config: Config) -> Iterator[str]:
    """Yield the key of each setting whose value is, or contains, a secret."""
    kept = [("credits.pepper", [config.credits.pepper]), *_issued(config)]
    kept.append(("credits.roots", config.credits.roots))
    for key, texts in [*kept, ("payments.fee_payer_key", [config.payments.fee_payer_key])]:
        if any(map(_text, texts)):
            yield key
    for key, urls in [("store", [config.store]), *_urls(config)]:
        if any(credentials.holds_secret(_text(each)) for each in urls):
            yield key


class OpenSecret(NeedsOperator):
    """Other users of the machine can read or change a file that holds a secret."""


def expect_closed(file: Path) -> None:
    """Raise OpenSecret if other users have any access to *file*, or its group may change it.

    If *file* cannot be examined, do nothing: reading it will report the reason.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return  # reading the file will report the reason
    if mode & OTHERS:
        raise OpenSecret(
            f"expected {file} to be closed to other users, for it holds secrets; its mode is"
            f" {mode:o}: chmod 600 {file}, or 640 if its group is the service's alone"
        )


ENDING: Final = "_file"
BYTES_MAX: Final = 65_536


class UnusableSecretFile(ValueError):
    """A file has no usable secret; the message names the expected form, but no contents."""


def read_secret(path: Path) -> str:
    """Return the secret in the file *path*, without blank lines and spaces around lines.

    Several lines are a list, and are joined by a comma and a space.  Raises UnusableSecretFile if
    the file is unreadable, not UTF-8, open to other users, empty or too long.
    """
    try:
        expect_closed(path)
        with path.open(encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as cause:
        raise UnusableSecretFile(f"{path} cannot be read: {cause.strerror}") from cause
    except OpenSecret as cause:
        raise UnusableSecretFile(str(cause)) from cause
    except UnicodeDecodeError as cause:
        raise UnusableSecretFile(f"expected text in {path}") from cause
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or len(text) > BYTES_MAX:
        raise UnusableSecretFile(f"expected a secret in {path}; it is empty or too long")
    return ", ".join(lines)


def with_secrets(table: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the TOML *table* with *secrets* added under their keys."""
    merged = {
        name: dict(part) if isinstance(part, Mapping) else part for name, part in table.items()
    }
    for key, text in secrets.items():
        section, _, name = key.rpartition(".")
        part = merged.setdefault(section, {}) if section else merged
        part[name] = text
    return merged


FILE_VARIABLE: Final = "MINTSCOPE_CONFIG"
# Variables of client commands, such as `mintscope get`; other commands ignore them.
CLIENT_VARIABLES: Final = ("MINTSCOPE_URL", "MINTSCOPE_CREDENTIAL", "MINTSCOPE_CREDENTIAL_FILE")
SIMILARITY_MIN: Final = 0.65  # from 0 to 1, of an unknown name and the setting that is suggested
DEFAULT_FILE: Final = Path("mintscope.toml")


class ConfigError(Exception):
    """The configuration is unusable; *problems* has a message for each reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Origin(StrEnum):
    """The origin of a setting's value."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    SECRET_FILE = "file of a secret"  # noqa: S105 - no password


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; its key is `section.name`, or `name` outside sections; *model* declares it."""

    key: str
    field: FieldInfo
    model: type[Config | Section]

    @property
    def variable(self) -> str:
        """The environment variable for this setting."""
        return _variable(self.key)

    @property
    def meaning(self) -> str:
        """The meaning of the setting, in one line; "" if it has no text."""
        name = self.key.rpartition(".")[2]
        # For settings without a text: all windows, and all files that hold another setting.
        follows = ""
        if name.endswith("_window_s"):
            follows = "Length of that window."
        elif name.endswith(ENDING):
            follows = f"The file that holds {name.removesuffix(ENDING)} instead."
        return _meanings(self.model).get(name, follows)

    def value(self, config: Config) -> Any:
        """Return the value of the setting in *config*."""
        return attrgetter(self.key)(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The configuration of this process, its TOML *file* if any, and the origin of each setting."""

    config: Config
    file: Path | None
    origins: Mapping[str, Origin]


def settings() -> Iterator[tuple[str, type[Section] | None, Sequence[Setting]]]:
    """Yield the settings of each section of the configuration, with its name and its class.

    The first are the settings outside of sections, with the name "" and the class None.
    """
    declared = Config.model_fields.items()
    yield "", None, [Setting(key, field, Config) for key, field in declared if not _section(field)]
    for name, field in declared:
        section = _section(field)
        if section is not None:
            fields = section.model_fields.items()
            yield name, section, [Setting(f"{name}.{key}", each, section) for key, each in fields]


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", DELIMITER).upper()


@cache
def _meanings(model: type[Config | Section]) -> dict[str, str]:
    """Return the text below each setting of *model*, in one line.

    pydantic could read the texts too, but it would do so in every process, which takes 30 ms.
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

    path     the TOML file; None: the file in MINTSCOPE_CONFIG, else mintscope.toml if it exists
    Raises   ConfigError with every problem that was found
    """
    environ = {
        # pydantic-settings ignores the case of variables.
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
    secrets: Mapping[str, str] = {}
    try:
        # The paths of secret files are settings, too, so the first reading finds them.
        config = Config(**table)
        secrets, unread = _secrets(config, known, origins)
        problems += unread
        if secrets:
            config = Config(**with_secrets(table, secrets))
            origins |= dict.fromkeys(secrets, Origin.SECRET_FILE)
    except ValidationError as error:
        problems += [_problem(each, file, environ, known, secrets) for each in error.errors()]
    else:
        problems += _contradictions(config)
        try:
            problems += guessable(config)
        except UnusablePepper as error:
            problems.append(str(error))
    if file is not None and not problems:
        try:
            if any(origins[key] is Origin.FILE for key in kept_secret(config)):
                expect_closed(file)
        except OpenSecret as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(sorted(set(problems)))
    return Loaded(config=config, file=file, origins=origins)


def _secrets(
    config: Config, known: Mapping[str, Setting], origins: Mapping[str, Origin]
) -> tuple[dict[str, str], list[str]]:
    secrets: dict[str, str] = {}
    problems = []
    files = {
        key: known[f"{key}{ENDING}"].value(config) for key in known if f"{key}{ENDING}" in known
    }
    for key, path in files.items():
        if path is None:
            continue
        if origins[key] is not Origin.DEFAULT:
            problems.append(f"{key}: expected it or {key}_file; both are set")
            continue
        try:
            secrets[key] = read_secret(path)
        except UnusableSecretFile as error:
            problems.append(f"{key}_file: {error}")
    return secrets, problems


def child_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with *settings* in place of all MINTSCOPE_ variables."""
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
    # The TOML or its UTF-8 is invalid, a number is too long, or tables are nested too deeply.
    except (ValueError, RecursionError) as cause:
        raise ConfigError([f"{file}: expected TOML; {cause}"]) from cause


def _unknown_variables(environ: Mapping[str, str], known: Mapping[str, Setting]) -> list[str]:
    """Return a problem for each unknown variable: a misspelled setting would have no effect."""
    variables = [setting.variable for setting in known.values()]
    # Unknown names below a section are reported by pydantic.
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
    secrets: Collection[str],
) -> str:
    """Return a message about the problem with a setting; it does not show the value of a secret.

    secrets   the keys of the settings whose values were read from files of secrets
    """
    key = _key(details["loc"], known)
    named = f"{key}{ENDING}" if key in secrets else key
    variable = _variable(named)
    where = f"{variable} (environment)" if variable in environ else f"{named} ({file})"
    if details["type"] == "extra_forbidden":
        variables = [setting.variable for setting in known.values()]
        nearest = _nearest(variable, variables) if variable in environ else _nearest(key, [*known])
        return f"{where}: no such setting{nearest}"
    is_table = details["type"] in {"model_type", "dict_type"}
    message = "expected a table of settings" if is_table else expectation(details)
    # At any depth of the annotation, for example in a tuple of secrets.
    is_secret = key in known and "Secret" in str(known[key].field.annotation)
    was = "" if is_secret else f"; was {details['input']!r:.80}"
    return f"{where}: {message}{was}"


def _key(location: Sequence[int | str], known: Mapping[str, Setting]) -> str:
    """Return the key of the setting at *location* in the TOML file, or of the nearest one above it.

    If there is none, return all parts of *location*, joined with dots.
    """
    parts = [str(part) for part in location]
    keys = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((key for key in keys if key in known), ".".join(parts))


def _nearest(name: str, names: Sequence[str]) -> str:
    # The prefix, which all variables have, does not make two names similar.
    shorter = {each.removeprefix(PREFIX): each for each in names}
    found = difflib.get_close_matches(name.removeprefix(PREFIX), list(shorter), 1, SIMILARITY_MIN)
    return f"; did you mean {shorter[found[0]]}?" if found else ""


def _contradictions(config: Config) -> Iterator[str]:
    if config.chain.source == "files" and not config.chain.files:
        yield 'chain.files: expected at least one file with chain.source "files"'
    if config.chain.source == "geyser":
        yield from _unstreamable(config.geyser)
    if config.api.degraded_after_s > config.api.stale_after_s:
        yield "api.degraded_after_s: expected at most api.stale_after_s"
    # Port 0 stands for any free port, so both may be 0.
    if config.metrics.enabled and 0 != config.metrics.ingest_port == config.metrics.api_port:
        yield "metrics.api_port: expected another port than metrics.ingest_port"
    metrics_ports = {config.metrics.ingest_port, config.metrics.api_port} - {0}
    if config.metrics.enabled and config.api.port in metrics_ports:
        yield "api.port: expected another port than those of metrics"
    if config.market.shard != str(WHOLE) and config.market.track != "all":
        yield 'market.shard: expected market.track "all", so that every pool is logged'
    if config.payments.enabled:
        yield from _unsellable(config.payments, config.chain)
    yield from _unsafe(config)


def _unstreamable(geyser: GeyserConfig) -> Iterator[str]:
    if not geyser.urls:
        yield 'geyser.urls: expected at least one server with chain.source "geyser"'
    if len(geyser.x_tokens) not in {0, 1, len(geyser.urls)}:
        yield "geyser.x_tokens: expected one for all of geyser.urls, or one for each"
    if geyser.ca_file is not None and not os.access(geyser.ca_file, os.R_OK):
        yield f"geyser.ca_file: expected a file that can be read; was {geyser.ca_file}"
    if find_spec("grpc") is None or find_spec("google") is None:
        yield (
            'chain.source: "geyser" needs grpcio and protobuf: pip install --require-hashes'
            " -r requirements/geyser.txt, a file of mintscope's sources"
        )


def _unsafe(config: Config) -> Iterator[str]:
    if config.mail.delivery == "page" and _is_reachable(config.api):
        yield (
            'mail.delivery: expected "smtp" or "none" where others can reach the api (api.host,'
            ' api.origin, api.trusted_proxies): "page" shows every e-mail, and the links in it, to'
            " every client"
        )
    if config.web.demo_wallet_seed and _is_reachable(config.api):
        yield (
            "web.demo_wallet_seed: expected none where others can reach the api (api.host,"
            " api.origin, api.trusted_proxies): every client could spend what the wallet holds"
        )
    is_in_clear = config.mail.delivery == "smtp" and config.mail.security == "none"
    if is_in_clear and not is_loopback(config.mail.host):
        yield 'mail.security: expected "starttls" or "tls" for a mail.host elsewhere'
    if config.signals.telegram_bot and config.signals.telegram_token is None:
        yield "signals.telegram_token: expected with signals.telegram_bot"
    taken = {config.api.port}
    if config.metrics.enabled:
        taken |= {config.metrics.ingest_port, config.metrics.api_port}
    if config.web.admin_port is not None and config.web.admin_port in taken - {0}:
        yield "web.admin_port: expected another port than those of api and metrics"


def _is_reachable(api: ApiConfig) -> bool:
    origin_host = "localhost" if api.origin is None else urlsplit(api.origin).hostname or ""
    hosts_are_own = is_loopback(api.host) and is_loopback(origin_host)
    # A proxy on this machine may pass on requests from other machines.
    return not hosts_are_own or bool(api.trusted_proxies)


def _unsellable(payments: PaymentsConfig, chain: ChainConfig) -> Iterator[str]:
    if payments.pay_to is None:
        yield "payments.pay_to: expected the wallet that is paid"
    if (payments.fee_payer_file is None) == (payments.fee_payer_key is None):
        yield "payments.fee_payer_file: expected exactly one of it and payments.fee_payer_key"
    if payments.price_source == "feed" and payments.price_feed_url is None:
        yield 'payments.price_feed_url: expected with payments.price_source "feed"'
    if payments.price_source == "market" and not payments.pools:
        yield 'payments.pools: expected with payments.price_source "market"'
    if payments.price_source == "market" and chain.source == "files":
        yield 'payments.price_source: expected another with chain.source "files"'


def _origin(setting: Setting, table: Mapping[str, Any], environ: Mapping[str, str]) -> Origin:
    below = setting.variable + DELIMITER
    if any(name == setting.variable or name.startswith(below) for name in environ):
        return Origin.ENVIRONMENT
    section, _, name = setting.key.rpartition(".")
    part = table.get(section) if section else table
    return Origin.FILE if isinstance(part, Mapping) and name in part else Origin.DEFAULT
