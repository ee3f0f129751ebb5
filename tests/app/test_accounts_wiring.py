"""Accounts and page origins are built from the configuration."""

from pathlib import Path

import pytest

from mintscope.app.accounts import open_accounts
from mintscope.app.config.config import AccountsConfig, MailConfig
from mintscope.app.config.groups import Config
from mintscope.app.config.values import origins_of, resource_origin
from mintscope.app.stores.stores import open_money
from mintscope.app.web_api import ACCOUNTS, EXCHANGE, KEY, SIGNUP, limits_of_accounts
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import Limit, MemoryLimits
from support.scenes.service import NOW


def test_limits_of_accounts_equal_their_settings() -> None:
    configured = AccountsConfig(
        signup_limit_requests=1,
        signup_limit_window_s=2,
        exchange_limit_requests=3,
        exchange_limit_window_s=4,
        limit_requests=5,
        limit_window_s=6,
        key_limit_requests=7,
        key_limit_window_s=8,
    )

    assert limits_of_accounts(configured) == (
        Limit(name="signup", count=1, window_s=2),
        Limit(name="exchange", count=3, window_s=4),
        Limit(name="accounts", count=5, window_s=6),
        Limit(name="key", count=7, window_s=8),
    )
    assert limits_of_accounts(AccountsConfig()) == (SIGNUP, EXCHANGE, ACCOUNTS, KEY)


@pytest.mark.parametrize(("delivery", "is_shown"), [("none", False), ("page", True)])
async def test_a_mailbox_exists_only_if_mail_is_delivered_to_a_page(
    tmp_path: Path, delivery: str, *, is_shown: bool
) -> None:
    config = Config(data_dir=tmp_path, mail=MailConfig.model_validate({"delivery": delivery}))
    clock = ManualClock(NOW)
    async with (
        open_money(config, clock) as money,
        open_accounts(
            config,
            store=money.accounts,
            pepper=money.pepper,
            origin="http://x",
            limits=MemoryLimits(clock),
            clock=clock,
        ) as accounts,
    ):
        assert (accounts.mailbox is not None) is is_shown


@pytest.mark.parametrize(
    ("configured", "host", "expected"),
    [
        ("https://a.example.org", "0.0.0.0", ["https://a.example.org"]),
        (None, "127.0.0.1", ["http://127.0.0.1:8402", "http://localhost:8402"]),
        (None, "localhost", ["http://localhost:8402"]),
        (None, "0.0.0.0", ["http://127.0.0.1:8402", "http://localhost:8402"]),
        (None, "::", ["http://127.0.0.1:8402", "http://localhost:8402"]),
        (None, "::1", ["http://[::1]:8402", "http://localhost:8402"]),
        (None, "10.0.0.1", ["http://10.0.0.1:8402"]),
    ],
)
def test_page_origins_are_the_configured_or_the_listening_address(
    configured: str | None, host: str, expected: list[str]
) -> None:
    assert origins_of(configured, host, 8402) == expected


@pytest.mark.parametrize(
    ("configured", "host", "expected"),
    [
        ("https://a.example.org", "0.0.0.0", "https://a.example.org"),
        (None, "127.0.0.1", "http://127.0.0.1:8402"),
        (None, "0.0.0.0", "http://0.0.0.0:8402"),
        (None, "::", "http://[::]:8402"),
    ],
)
def test_the_resource_origin_is_the_configured_or_the_listening_address(
    configured: str | None, host: str, expected: str
) -> None:
    assert resource_origin(configured, host, 8402) == expected
