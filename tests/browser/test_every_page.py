"""Every page, in light and dark, wide and narrow, as visitors, users and administrators see it.

The pictures are in `build/screenshots`.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from page_checks import Fault, look_at, look_elsewhere, open_still
from playwright.async_api import Browser
from pydantic import SecretStr

from mintscope.app.config.groups import SignalsConfig
from mintscope.kit.errors import MethodNotAllowed, NotFound
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.http.routes import Route, Router
from mintscope.site.routes import SEGMENT, PageRoute
from mintscope.solana.blocks import USDC, WSOL
from support.scenes.page_scene import NEWCOMER, PERSON, PROTECTED, scene_at
from support.scenes.people.browsing import MOVED, Visitor, visiting
from support.scenes.website import ADMINISTRATOR, MINUTE_MS, Website, served_website, website

BACKTEST: Final = f"/token/{WSOL}/backtest?where=change_h1+%3E+0"
ADDRESSES: Final = {
    "stranger": {
        "home": "/",
        "token": f"/token/{WSOL}",
        "tokens": "/tokens",
        "search": "/search",
        "status": "/status",
        "tokens-none": "/tokens?q=no+such+token",
        "pricing-nothing-sold": "/pricing",
        "credits": "/credits",
        "sign-up": "/sign-up",
        "sign-in": "/sign-in",
        "sign-in-to-go-on": "/sign-in?next=/settings/api-keys",
        "forgot": "/forgot",
        "reset": "{reset}",
        "reset-gone": "/reset/1.gone",
        "confirm": "{confirm}",
        "confirm-gone": "/confirm/1.gone",
        "undo-email": "{undo}",
        "undo-email-gone": "/undo-email/1.gone",
        "confirmed": "/confirmed",
        "disowned": "/disowned",
        "mailbox": "/mailbox",
        "mailbox-of-no-one": "/mailbox?to=no-one@every.example",
        "email": "/mailbox/{email_id}",
        "missing": "/nothing-here",
        "docs": "/docs",
        "docs-guide": "/docs/guides/start",
        "docs-buying": "/docs/guides/buying",
        "docs-alerts": "/docs/guides/alerts",
        "docs-errors-are-free": "/docs/guides/errors",
        "docs-endpoint": "/docs/api/get-token",
        "docs-endpoint-with-body": "/docs/api/post-tokens-batch",
        "docs-indicators": "/docs/indicators",
        "docs-errors": "/docs/errors",
        "docs-changelog": "/docs/changelog",
    },
    "newcomer": {
        "start-new": "/",
        "account-new": "/settings/account",
        "telegram-none": "/settings/telegram",
        "verify": "/verify/1.x",
        "second-factor-none": "/settings/second-factor",
        "account-email-new": "/settings/account/email",
        "keys-none": "/settings/api-keys",
        "credits-none": "/credits",
        "watchlists-none": "/watchlists",
        "alerts-none": "/alerts",
    },
    "person": {
        "start": "/",
        "tokens-starred": "/tokens",
        "token-of-person": f"/token/{WSOL}",
        "tokens-watched": "/tokens?watched=1",
        "backtest": f"/token/{WSOL}/backtest",
        "backtest-wrong": f"/token/{WSOL}/backtest?where=rsi_m5+%3C",
        "keys": "/settings/api-keys",
        "key-new": "/settings/api-keys/new",
        "key-new-preset": "/settings/api-keys/new?preset=trading-bot",
        "key-new-wrong": "/settings/api-keys/new/review?name=&trade=all&lifetime=2d&networks=x",
        "key-review": "/settings/api-keys/new/review?name=Bot&trade=write&groups=read",
        "key-review-bare": "/settings/api-keys/new/review?name=Bot&lifetime=never",
        "key-review-networks": "/settings/api-keys/new/review?name=Bot&networks=192.0.2.0/24",
        "key": "/settings/api-keys/{used}",
        "key-replaced": "/settings/api-keys/{old}",
        "key-revoked": "/settings/api-keys/{ended}",
        "key-rotate": "/settings/api-keys/{used}/rotate",
        "key-revoke": "/settings/api-keys/{used}/revoke",
        "key-cap": "/settings/api-keys/{used}/cap",
        "key-networks": "/settings/api-keys/{used}/networks",
        "key-rename": "/settings/api-keys/{used}/rename",
        "account": "/settings/account",
        "password": "/settings/account/password",
        "second-factor": "/settings/second-factor",
        "telegram": "/settings/telegram",
        "account-email": "/settings/account/email",
        "change-email": "{change}",
        "change-email-gone": "/change-email/1.gone",
        "account-delete": "/settings/account/delete",
        "sessions": "/settings/sessions",
        "security-log": "/settings/log",
        "claim": "/claim/1.x",
        "own-payments": "/credits/payments",
        "own-wallets": "/credits/wallets",
        "own-usage": "/credits/usage",
        "receipt": "/credits/payments/{signature}",
        "operator": "/operator",
        "alerts": "/alerts",
        "alert": "/alerts/{alert}",
        "alert-new": "/alerts/new",
        "alert-change": "/alerts/{alert}/edit",
        "alert-delete": "/alerts/{alert}/delete",
        "watchlists": "/watchlists",
        "watchlist": "/watchlists/{watchlist}",
        "watchlist-delete": "/watchlists/{watchlist}/delete",
    },
    "protected": {
        "second-factor-on": "/settings/second-factor",
        "second-factor-codes": "/settings/second-factor/codes",
        "second-factor-remove": "/settings/second-factor/app/remove",
    },
    "administrator": {
        "start-administrator": "/",
        "queue": "/admin",
        "overview": "/admin/overview",
        "tokens-followed": "/admin/tokens",
        "backfills": "/admin/tokens/history?mint=So11111111111111111111111111111111111111112",
        "token-drop": f"/admin/tokens/{USDC}/remove",
        "sales": "/admin/sales",
        "queue-found": "/admin?state=all&text=trade",
        "audit-filtered": "/admin/audit?who=no-one@every.example",
        "queue-all": "/admin?state=all",
        "queue-empty": "/admin?state=all&after=1",
        "application": "/admin/applications/{waiting}",
        "application-unconfirmed": "/admin/applications/{unconfirmed}",
        "application-issued": "/admin/applications/{issued}",
        "application-rejected": "/admin/applications/{rejected}",
        "application-reset": "/admin/applications/{issued}/reset",
        "application-forget": "/admin/applications/{issued}/forget",
        "payments": "/admin/payments",
        "payments-found": "/admin/payments?q={signature}",
        "users": "/admin/users",
        "customer": "/admin/users/{user}",
        "user-remove": "/admin/users/{user}/remove",
        "audit": "/admin/audit",
    },
    "administrator alone": {
        "alone-start": "/",
        "alone-queue": "/admin",
    },
}
SENT_AS_THEY_STAND: Final = {
    "stranger": {
        "sign-up-wrong": ("/sign-up", "Create the account"),
        "sign-in-wrong": ("/sign-in", "Sign in"),
        "forgot-wrong": ("/forgot", "Send the link"),
        "reset-wrong": ("{reset}", "Set the password"),
    },
    "newcomer": {"second-factor-app": ("/settings/second-factor", "Add an app")},
    "person": {
        "backtest-bought": (
            f"/token/{WSOL}/backtest?where=change_h1+%3E+0",
            "Test it for one credit",
        ),
        "account-email-wrong": ("/settings/account/email", "Send the link"),
        "key-renamed": ("/settings/api-keys/{old}/rename", "Rename key"),
        "account-delete-wrong": ("/settings/account/delete", "Delete my account"),
        "credits-deposit-wrong": ("/credits?of=token", "Move them in"),
        "alert-wrong": ("/alerts/new", "Create alert"),
        "alert-secret-shown-once": ("/alerts/{alert}", "New webhook secret"),
        "watchlists-wrong": ("/watchlists", "Create watchlist"),
        "watchlist-wrong": ("/watchlists/{watchlist}", "Add the token"),
        "password-wrong": ("/settings/account/password", "Set the password"),
        "key-shown-once": ("/settings/api-keys/new/review?name=Bot&trade=write", "Create key"),
    },
    "protected": {
        "second-factor-shown-once": ("/settings/second-factor/codes", "Make ten codes"),
    },
    "administrator": {
        "application-wrong": ("/admin/applications/{unconfirmed}", "Approve"),
        "user-remove-wrong": ("/admin/users/{user}/remove", "Remove the account"),
    },
    "administrator alone": {
        "alone-home": ("/", "Sign out"),
    },
}
# Checked elsewhere, for example by `test_passkeys_in_browser`, or read by programs.
ELSEWHERE: Final = {
    "/pause-alert/{link}",
    "/prove",
    "/prove/passkey",
    "/settings",
    "/docs/words.json",
    *("/docs.md", "/docs/indicators.md", "/docs/errors.md", "/docs/changelog.md"),
    "/credits/statement.csv",
    "/credits/payments.csv",
    "/credits/usage.csv",
    "/settings/second-factor/app",
    "/settings/second-factor/passkeys/new",
    "/settings/second-factor/passkeys/{passkey}/remove",
    "/sign-in/code",
    "/sign-in/passkey",
    "/sign-in/passkey-alone",
    "/live",
    "/live/events",
    "/tokens/events",
    "/token/{mint}/live",
    "/token/{mint}/older",
    "/token/{mint}/chart.png",
    "/tokens.csv",
}
TELEGRAM: Final = SignalsConfig(telegram_bot="mintscope_bot", telegram_token=SecretStr("1:a"))
MARKET_SEEN_BY: Final = {"stranger", "person"}
WHO: Final = {
    "stranger": None,
    "newcomer": NEWCOMER,
    "person": PERSON,
    "protected": PROTECTED,
    "administrator": ADMINISTRATOR,
    "administrator alone": ADMINISTRATOR,
}


@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="session")
async def test_every_page_passes_every_check(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with asyncio.TaskGroup() as tours:
        looking = [
            tours.create_task(tour(chromium, tmp_path_factory.mktemp(role), role)) for role in WHO
        ]

    assert [fault for each in looking for fault in each.result()] == []


async def tour(chromium: Browser, folder: Path, role: str) -> list[Fault]:
    """Return the faults of every page that *role* sees, at a separate service."""
    email = WHO[role]
    faults: list[Fault] = []
    alone = role == "administrator alone"
    async with (
        served_website(
            folder, alone=alone, has_market=role in MARKET_SEEN_BY, signals=TELEGRAM
        ) as site,
        visiting(chromium, site.origin) as visitor,
    ):
        places = await scene_at(site)
        if site.market is not None:
            await site.market.trade()  # the scene takes days, so its data is old
        if email is not None:
            await visitor.sign_in(email)
        if email == PROTECTED:
            faults += await look_at(visitor.page, "sign-in-code")
            await visitor.press("Sign in")
            faults += await look_at(visitor.page, "sign-in-code-wrong")
            await visitor.page.get_by_label("Code of your app").fill(str(places["code"]))
            await visitor.press("Sign in")
        await visitor.page.add_init_script(MOVED)
        for name, address in ADDRESSES[role].items():
            faults += await open_still(visitor, address.format_map(places), name)
            faults += await look_elsewhere(visitor.page, name)
            faults += await look_at(visitor.page, name)
        for name, (address, button) in SENT_AS_THEY_STAND[role].items():
            await visitor.open(address.format_map(places))
            await visitor.press(button)
            faults += await look_at(visitor.page, name)
        if role == "newcomer":
            faults += await look_when_stale(site, visitor)
        if role == "person":
            faults += await look_at_kept_credits(visitor)
        if role == "stranger":
            site.clock.advance(6 * MINUTE_MS)
            await visitor.open("/status")
            faults += await look_at(visitor.page, "status-late")
    return faults


async def look_when_stale(site: Website, visitor: Visitor) -> list[Fault]:
    """Let the sign-in go stale; return the faults of the page that asks for the password again."""
    site.clock.advance(11 * MINUTE_MS)
    await visitor.open("/settings/api-keys/new")
    faults = await look_at(visitor.page, "prove")
    await visitor.press("Continue")
    return faults + await look_at(visitor.page, "prove-wrong")


async def look_at_kept_credits(visitor: Visitor) -> list[Fault]:
    """Return the faults of the page that shows a credit token before an account is deleted.

    The account is not deleted.
    """
    await visitor.open("/settings/account/delete")
    label = await visitor.page.locator("label[for=username]").inner_text()
    await visitor.page.get_by_label("Type your user name").fill(label.split()[-1])
    await visitor.press("Delete my account")
    await visitor.reads("Your account is not deleted yet.")
    return await look_at(visitor.page, "account-kept")


def route_of(page: PageRoute) -> Route:
    async def endpoint(_request: Request) -> Response:
        return Response(200)

    return Route(method=page.method, path=page.path, endpoint=endpoint)


async def test_every_page_is_visited_or_listed_as_checked_elsewhere(tmp_path: Path) -> None:
    async with website(tmp_path, has_market=True, signals=TELEGRAM) as site:
        routes = site.routes()
    addresses = [address for each in ADDRESSES.values() for address in each.values()]
    paths = [address.partition("?")[0] for address in addresses]
    paths = [path.format_map(AnyPlace()) for path in paths]
    router = Router(map(route_of, routes), SEGMENT)
    looked_at = set()
    for path in paths:
        with suppress(NotFound, MethodNotAllowed):
            looked_at.add(router.find("GET", path)[0].path)

    assert {route.path for route in routes if route.method == "GET"} - looked_at == ELSEWHERE


class AnyPlace(dict[str, str]):
    """Values for the variables in the paths of routes; every variable has a value."""

    def __missing__(self, name: str) -> str:
        links = {"undo": "undo-email", "change": "change-email"}
        if name in {"reset", "confirm", *links}:
            return f"/{links.get(name, name)}/1.x"
        return "1"
