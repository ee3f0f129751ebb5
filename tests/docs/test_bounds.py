"""`docs/operating/limits.md` lists the bound of everything whose size a client decides."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mintscope.accounts import passwords
from mintscope.accounts.keys.key import ADDRESSES_MAX, KEYS_PER_USER_MAX
from mintscope.accounts.mail.email import OF_SITE
from mintscope.accounts.session import SESSIONS_PER_USER_MAX
from mintscope.accounts.wallets import credits as account_credits
from mintscope.api.gate import KEPT_BYTES_MAX
from mintscope.api.v1 import mint_of, order_of
from mintscope.app.config.config import AccountsConfig, ApiConfig, MailConfig, WebConfig
from mintscope.app.config.groups import MarketConfig, PaymentsConfig, SignalsConfig
from mintscope.app.web_api import OTHER, PROBES
from mintscope.app.web_site import FORMS
from mintscope.credits import store as credit_ledger
from mintscope.kit.http import request
from mintscope.kit.http.request import network_key
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import IPV6_PREFIX, IPV6_SITE_PREFIX, KEYS_MAX, SITE_SHARES
from mintscope.kit.sql import group_commit
from mintscope.market.follow.tailer import LOADS_AT_ONCE
from mintscope.mcp import budget
from mintscope.site.routes import FIELDS_MAX

PAGE: Final = Path(__file__).parents[2] / "docs" / "operating" / "limits.md"
HEADING: Final = "# Limits on clients"
BOUNDS: Final = Bounds()
ROWS: Final[Mapping[str, tuple[float, ...]]] = {
    "all connections together": (BOUNDS.connections_max, ApiConfig().connections_max),
    "connections of an address": (
        BOUNDS.connections_per_client_max,
        ApiConfig().connections_per_client_max,
    ),
    "refused connections that are still open": (BOUNDS.lingering_max,),
    "requests that wait on a connection": (BOUNDS.waiting_max,),
    "pause after a 429, until the connection is read again": (BOUNDS.pause_s,),
    "a request line and headers": (BOUNDS.head_bytes_max, ApiConfig().header_bytes_max),
    "the address in a request line": (BOUNDS.url_bytes_max,),
    "headers of a request": (BOUNDS.headers_max,),
    "incomplete bodies and unparsed bytes, of all connections together": (BOUNDS.unread_bytes_max,),
    "chunks, or packets, of a body": (BOUNDS.body_pieces_max,),
    "time for which a client does not read an answer, even a short one": (BOUNDS.unread_s_max,),
    "a body": (BOUNDS.body_bytes_max, ApiConfig().body_bytes_max, request.BODY_BYTES_MAX),
    "requests for pages, files and unknown paths, of an address": (
        OTHER.count,
        ApiConfig().other_limit_requests,
    ),
    "`/healthz` and `/readyz`, of an address": (PROBES.count,),
    "forms of an address": (FORMS.count,),
    "addresses or accounts that a limit counts": (KEYS_MAX,),
    "addresses whose network is remembered": (network_key.cache_info().maxsize or 0,),
    "credit tokens that are remembered": (credit_ledger.KNOWN_MAX,),
    "people whose account of credits is remembered": (account_credits.KNOWN_MAX,),
    "token addresses that are remembered": (
        mint_of.cache_info().maxsize or 0,
        order_of.cache_info().maxsize or 0,
    ),
    "different budgets of MCP clients": (2 * budget.SHARES_MAX,),
    "answers kept for the same `Idempotency-Key`": (KEPT_BYTES_MAX,),
    "requests that wait for the ledger": (group_commit.WAITING_MAX,),
    "mints that are loaded at once": (LOADS_AT_ONCE,),
    "mints in memory": (MarketConfig().live_mints_max,),
    "passwords that wait for a hash": (passwords.WAITING_MAX,),
    "fields of a form": (FIELDS_MAX,),
    "open pages that follow changes": (WebConfig().live_pages_max,),
    "sessions of an account": (SESSIONS_PER_USER_MAX,),
    "valid API keys of an account": (KEYS_PER_USER_MAX,),
    "client addresses stored for an API key": (ADDRESSES_MAX,),
    "firings of an alert in an hour": (SignalsConfig().firings_per_hour_max,),
    "days of usage by key and endpoint": (AccountsConfig().usage_kept_days,),
    "firings stored for an alert": (SignalsConfig().firings_kept_max,),
    "webhooks to a host, or to an IP address, in a minute": (
        SignalsConfig().webhooks_per_minute_max,
    ),
    "changes to an account in 24 hours, except changes that move money": (
        AccountsConfig().writes_per_day_max,
    ),
    "such changes to all accounts together in a minute": (AccountsConfig().writes_per_minute_max,),
    "payments that fail before they are sent, in a minute": (
        PaymentsConfig().failed_trials_per_minute_max,
    ),
    "links to set a new password that a client address requests in an hour": (OF_SITE.count,),
    "e-mails about one alert in 24 hours": (
        SignalsConfig().emails_per_alert_max,
        SignalsConfig().email_pause_s / 60,
    ),
    "e-mails that an api process hands to the mail server in an hour": (MailConfig().per_hour_max,),
    "queued webhooks of an alert": (SignalsConfig().webhooks_waiting_max,),
}


def section() -> str:
    return PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]


def rows() -> dict[str, set[float]]:
    """Return the numbers in the second cell of each row, by the text of the first cell."""
    found: dict[str, set[float]] = {}
    for line in section().splitlines():
        if line.startswith("| ") and not line.startswith(("| what", "| --")):
            what, bound = (cell.strip() for cell in line.split(" | ")[:2])
            numbers = re.findall(r"\d[\d,.]*\d|\d", bound)
            found[what.removeprefix("| ")] = {float(each.replace(",", "")) for each in numbers}
    return found


def test_the_page_lists_every_bound_with_its_value() -> None:
    assert rows() == {what: set(map(float, bounds)) for what, bounds in ROWS.items()}


def test_ipv6_addresses_count_by_64_and_48_and_no_setting_changes_this() -> None:
    assert (IPV6_PREFIX, IPV6_SITE_PREFIX, SITE_SHARES) == (64, 48, 4)
    assert "addresses of a /64 count as one address; no setting changes this" in " ".join(
        section().split()
    )
    settings: list[Any] = [*ApiConfig.model_fields]
    assert not [name for name in settings if "ipv6" in name or "prefix" in name]
