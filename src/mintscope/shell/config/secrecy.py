"""Which configured secrets are refused: those that others can guess, or read in the file."""

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from mintscope.base.errors import NeedsOperator
from mintscope.client.keypair import parse_keypair
from mintscope.core.secrets.guessing import (
    IS_EXAMPLE,
    flaw_of_key,
    flaw_of_password,
    has_example,
    holds_secret,
    is_example,
    passwords_in,
)
from mintscope.shell.config.config import Config

OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP  # root may own it, and the service's group read it


def guessable(config: Config) -> list[str]:
    """Return a problem for each secret of *config* that others can guess; it names no secret."""
    return [f"{key}: expected a secret of your own; {flaw}" for key, flaw in _flaws(config)]


def _flaws(config: Config) -> Iterator[tuple[str, str]]:
    pepper = config.credits.pepper
    fee_payer = config.payments.fee_payer_key
    if pepper is not None and not config.credits.roots:
        yield from _named("credits.pepper", flaw_of_key(bytes.fromhex(pepper.get_secret_value())))
    if fee_payer is not None:
        seed = parse_keypair(fee_payer.get_secret_value()).secret()
        yield from _named("payments.fee_payer_key", flaw_of_key(seed))
    for password in passwords_in(_text(config.store)):
        yield from _named("store", flaw_of_password(password))
    for key, urls in _urls(config):
        if any(has_example(_text(url)) for url in urls):
            yield key, IS_EXAMPLE
    for key, texts in _issued(config):
        if any(is_example(_text(text)) for text in texts):
            yield key, IS_EXAMPLE


def _named(key: str, flaw: str | None) -> Iterator[tuple[str, str]]:
    if flaw is not None:
        yield key, flaw


def _urls(config: Config) -> Iterator[tuple[str, Iterable[SecretStr | None]]]:
    yield "chain.rpc_url", [config.chain.rpc_url]
    yield "chain.second_rpc_url", [config.chain.second_rpc_url]
    yield "geyser.urls", config.geyser.urls
    yield "payments.price_feed_url", [config.payments.price_feed_url]
    yield "tracing.otlp_url", [config.tracing.otlp_url]


def _issued(config: Config) -> Iterator[tuple[str, Iterable[SecretStr | None]]]:
    """Yield the secrets that others have issued: how good these are is not for us to say."""
    yield "mail.password", [config.mail.password]
    yield "geyser.x_tokens", config.geyser.x_tokens
    yield "chain.rpc_headers", config.chain.rpc_headers.values()


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def kept_secret(config: Config) -> Iterator[str]:
    """Yield the key of each setting that holds a secret."""
    kept = [("credits.pepper", [config.credits.pepper]), *_issued(config)]
    kept.append(("credits.roots", config.credits.roots))
    for key, texts in [*kept, ("payments.fee_payer_key", [config.payments.fee_payer_key])]:
        if any(map(_text, texts)):
            yield key
    for key, urls in [("store", [config.store]), *_urls(config)]:
        if any(holds_secret(_text(each)) for each in urls):
            yield key


class OpenSecret(NeedsOperator):
    """Others of the machine may read, or change, a file that holds a secret."""


def expect_closed(file: Path) -> None:
    """Expect *file*, which holds a secret, to be closed to others.  Raises OpenSecret."""
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return  # reading it says why it cannot be read
    if mode & OTHERS:
        raise OpenSecret(
            f"expected {file} to be closed to other users, for it holds secrets; its mode is"
            f" {mode:o}: chmod 600 {file}, or 640 if its group is the service's alone"
        )
