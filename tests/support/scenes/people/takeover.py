"""An account with all kinds of content, and the changes that a thief with its password makes."""

from dataclasses import dataclass, replace
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewPasskey
from mintscope.accounts.factors import code_at, step_of
from mintscope.accounts.keys.scope import OPEN_SCOPES
from mintscope.accounts.session import Session
from mintscope.alerts.alert import Alert, AlertRule, SignalId, TelegramChat
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.primitives import Mint, Wallet
from mintscope.solana.blocks import WSOL
from support.scenes.website import HERE, PASSWORD, Website

OWN_CAP: Final = 100
OWN_WALLET: Final = Wallet("1" * 32)
THEIR_WALLET: Final = Wallet("2" * 32)
OWN_HOOK: Final = "https://owner.example/"
THEIR_HOOK: Final = "https://thief.example/"
RULE: Final = AlertRule(
    name="up",
    mint=Mint(WSOL),
    field=Field("price.usd"),
    kind=SignalKind.ABOVE,
    level=100.0,
    margin=0.0,
    webhook_url=OWN_HOOK,
)


@dataclass(frozen=True)
class AccountContents:
    """The owner's API key, its id, and two alerts; a thief changes the webhook of the second."""

    key: str
    key_id: KeyId
    alerts: tuple[SignalId, SignalId]


async def session_of(site: Website, email: str) -> Session:
    """Return a new session of the person with *email*, who signs in without a second factor."""
    people = site.accounts.people
    session = await people.session(await people.sign_in(EmailAddress(email), PASSWORD, HERE))
    assert session is not None
    return session


async def move_in(site: Website, email: str) -> AccountContents:
    """Give the owner a key with a cap, a wallet, two alerts, and a spend alert."""
    session = await session_of(site, email)
    await site.accounts.credits.set_spend_level(session.user.user_id, OWN_CAP)
    key, key_id = await _make_key(site, session, OWN_WALLET)
    assert await site.accounts.keys.cap(session, key_id, 2 * OWN_CAP)
    assert await site.accounts.keys.cap(session, key_id, OWN_CAP)
    alerts = [await _alert(site, session.user.user_id, OWN_HOOK) for _ in range(2)]
    return AccountContents(key, key_id, (alerts[0], alerts[1]))


async def break_in(site: Website, session: Session, found: AccountContents) -> str:
    """Create and change everything that a thief with *session* can; return the thief's API key."""
    assert await site.accounts.keys.cap(session, found.key_id, None)
    user_id = session.user.user_id
    await site.accounts.credits.set_spend_level(user_id, None)
    await site.accounts.credits.set_spend_level(user_id, 1_000 * OWN_CAP)
    changed = await site.accounts.signals.change(
        user_id, found.alerts[1], lambda rule: replace(rule, webhook_url=THEIR_HOOK)
    )
    assert isinstance(changed, Alert)
    await _alert(site, user_id, THEIR_HOOK)
    new = NewPasskey(credential_id=b"c", public_key=b"k", sign_count=0, name="phone of the thief")
    await add_app(site, session)
    now = site.clock.now()
    await site.accounts.people.store.transact(lambda rows: rows.passkeys.insert(user_id, new, now))
    chat = TelegramChat(user_id=user_id, chat_id=7, name="@thief", linked_at=now)
    await site.accounts.people.store.transact(lambda rows: rows.chats.link(chat))
    return (await _make_key(site, session, THEIR_WALLET))[0]


async def add_app(site: Website, session: Session) -> None:
    factors = site.accounts.factors
    await factors.begin_app(session)
    secret = await factors.app_secret(session)
    assert secret is not None
    await factors.confirm_app(session, code_at(secret, step_of(site.clock.now())))


async def _make_key(site: Website, session: Session, wallet: Wallet) -> tuple[str, KeyId]:
    accounts = site.accounts
    issued = await accounts.keys.create(session, name="bot", scopes=OPEN_SCOPES, lifetime_ms=None)
    holder = await accounts.keys.find(issued.api_key)
    assert holder is not None
    assert await accounts.wallets.link(holder, wallet) is not None
    return issued.api_key, issued.line.key_id


async def _alert(site: Website, user_id: UserId, hook: str) -> SignalId:
    made = await site.accounts.signals.make(user_id, replace(RULE, webhook_url=hook))
    assert isinstance(made, Alert)
    return made.signal_id


def expect_the_owners_alone(site: Website) -> None:
    """Check that the account has only objects and values of its owner."""
    assert site.rows("SELECT name FROM passkey") == []
    assert site.rows("SELECT count(*) FROM authenticator_app") == [(0,)]
    assert site.rows("SELECT wallet FROM linked_wallet") == [(OWN_WALLET,)]
    caps = site.rows("SELECT month_credits_max FROM api_key WHERE revoked_at IS NULL")
    assert caps == [(OWN_CAP,)]
    assert site.rows("SELECT credits FROM spend_alert") == [(OWN_CAP,)]
    assert site.rows("SELECT count(*) FROM telegram_chat") == [(0,)]
    assert site.rows("SELECT webhook_url FROM signal ORDER BY id") == [(OWN_HOOK,), (None,)]
