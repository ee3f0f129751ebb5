"""The texts of e-mails: the reason, the next step, and advice for a wrong recipient.

No e-mail contains a text of an applicant, and only e-mails to a verified address contain texts of a
user: a person who enters a stranger's address must not be able to write to the stranger in the name
of the service.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from mintscope.accounts.mail.email import Draft, Email, EmailKind
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Purpose, link_text
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import utc

NO_FACTS: Final = dict.fromkeys(
    (
        *("scopes", "hint", "username", "what", "because", "undo", "wallet"),
        *("signal", "mint", "alert", "title", "lines", "message", "name_of", "symbol"),
        *("limit", "resumes", "pause"),
        *("spent", "level", "day"),
    ),
    "",
)
HOST_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
LINK_OF: Final[Mapping[EmailKind, tuple[Purpose, str]]] = {
    EmailKind.CONFIRM_APPLICATION: (Purpose.CONFIRM_APPLICATION, "confirm"),
    EmailKind.VERIFY_EMAIL: (Purpose.VERIFY_EMAIL, "verify"),
    EmailKind.RESET_PASSWORD: (Purpose.RESET_PASSWORD, "reset"),
    EmailKind.CLAIM_AGENT: (Purpose.CLAIM_AGENT, "claim"),
    EmailKind.CHANGE_EMAIL: (Purpose.CHANGE_EMAIL, "change-email"),
    EmailKind.EMAIL_CHANGED: (Purpose.UNDO_EMAIL, "undo-email"),
}
PAUSE: Final = "pause-alert"
PAUSABLE: Final = {
    EmailKind.SIGNAL_FIRED,
    EmailKind.SIGNAL_LIMIT,
    EmailKind.SIGNAL_HOUR_LIMIT,
}

# The purpose and the path of the link in all e-mails that have a proof but are not in LINK_OF.
UNDO: Final = (Purpose.UNDO_EMAIL, "undo-email")


class EmailWithoutLink(ValueError):
    """The proof for the e-mail's link was deleted, so the e-mail cannot be sent."""


def compose(draft: Draft, *, origin: str, secrets: AccountSecrets, name: str) -> Email:
    """Return the e-mail of *draft*; every call for a draft returns the same e-mail.

    origin    the configured origin of links; it is never taken from a request
    name      the name of this installation
    Raises    EmailWithoutLink
    """
    facts = NO_FACTS | draft.facts | {"origin": origin, "name": name}
    if "reason" in draft.facts:  # a text by an administrator
        facts["because"] = f"\n{draft.facts['reason']}\n"
    if draft.kind in LINK_OF and draft.proof is None:
        raise EmailWithoutLink(f"e-mail {draft.email_id}: expected a proof; there is none")
    if draft.proof is not None:
        purpose, path = LINK_OF.get(draft.kind, UNDO)
        last = link_text(draft.proof.proof_id, secrets.link_of(draft.proof.nonce))
        until = UnixMs(draft.written_at + purpose.lifetime_ms)
        facts["link"], facts["code"] = f"{origin}/{path}/{last}", secrets.code_of(draft.proof.nonce)
        facts["until"] = f"{utc(until):%d %B %Y, %H:%M} UTC"
        facts["undo"] = f"\n{TAKE_BACK.format_map(facts)}"
    signal = draft.facts.get("signal")
    facts["alert"] = f"{origin}/alerts" if signal is None else f"{origin}/alerts/{signal}"
    pause = None
    if draft.kind in PAUSABLE and signal is not None:
        number = int(signal)
        pause = facts["pause"] = f"{origin}/{PAUSE}/{number}.{secrets.pause_proof(number)}"
    subject, text = TEMPLATES[draft.kind]
    return Email(
        recipient=draft.recipient,
        subject=subject.format_map(facts),
        text=f"Hello,\n\n{text.format_map(facts)}\n-- \n{name}, {origin}\n",
        message_id=_message_id(draft, origin, secrets),
        pause=pause,
    )


def _message_id(draft: Draft, origin: str, secrets: AccountSecrets) -> str:
    host = urlsplit(origin).hostname or ""
    domain = host if host and HOST_SIGNS.issuperset(host) else "localhost"
    return f"<{secrets.email_name(draft.email_id, draft.written_at)}@{domain}>"


TAKE_BACK: Final = """\
Or take the account back here before {until}:

{link}

This ends every session and undoes every change made in the account
since the session behind this change began.
"""

CONFIRM_APPLICATION: Final = """\
Someone applied for access to {name} with this e-mail address.

If it was you or your agent, confirm that the address is yours: open
this page and press "Yes, confirm the application":

{link}

Your agent can also send this code to {origin}/api/auth/confirm-email :

{code}

Both expire on {until}.

If it was not you, open the page and press "No, this was not me": the
application is then deleted. Without an answer, it is deleted after
three days.
"""

APPLICATION_APPROVED: Final = """\
Your application for access to {name} was approved.

Your agent can now exchange its application secret for an API key:
POST {origin}/api/auth/exchange-secret
The secret works once. The key has these scopes: {scopes}

You received this e-mail because the application named this address.
If you did not expect it, contact the operator of {name}.
"""

APPLICATION_REJECTED: Final = """\
Thank you for your interest in {name}. Your application for access
was not approved.
{because}
You received this e-mail because the application named this address.
No action is needed.
"""

APPLICATION_REOPENED: Final = """\
Your application for access to {name} is being reviewed again. The
decision that we sent you a moment ago no longer applies.

You get another e-mail when the review is over.

You received this e-mail because the application named this address.
No action is needed.
"""

NEW_KEY: Final = """\
A new API key was created for your account at {name}.

Key:     svc_live_{hint}
Scopes:  {scopes}

If you or your agent created it, no action is needed.

If not, someone else has access to your account. If you sign in with a
password, choose a new one at
{origin}/forgot
and revoke the key at
{origin}/settings/api-keys
{undo}
If an agent applied with your address without your consent, contact the
operator of {name}.
"""

KEY_NETWORKS: Final = """\
An API key of your account at {name} is accepted from more networks
than before.

Key:     svc_live_{hint}

If it was you, no action is needed.

If not, someone else has access to your account. If you sign in with a
password, choose a new one at
{origin}/forgot
and revoke the key, or change its networks, at
{origin}/settings/api-keys
{undo}"""

VERIFY_EMAIL: Final = """\
Please verify that this e-mail address is yours. Open this link in the
browser in which you are signed in to {name}:

{link}

The link works once and expires on {until}.

You received this e-mail because an account was created with this address.
If it was not you, do not open the link. To take the account over and
lock the other person out, choose a password at
{origin}/forgot
"""

NEW_LOGIN: Final = """\
Someone, probably you, wants to set a new password for your account at
{name}. Open this page to choose one:

{link}

The link works once and expires on {until}.

If it was not you, no action is needed: your password stays as it is, and
no one else can use the link.
"""

LOGIN_CHANGED: Final = """\
The password of your account at {name} was changed, and all other
sessions were ended.

If it was you, no action is needed.

If it was not you, choose another password at once, at
{origin}/forgot
and look for API keys that you do not know, at
{origin}/settings/api-keys
{undo}"""

CLAIM_AGENT: Final = """\
Someone, probably you, wants to take the agent account
{username} into a personal account at {name}.
Its API keys keep working and will be listed with that person's own keys.

To agree, open this link in the browser in which you are signed in:

{link}

The link works once and expires on {until}.

If it was not you, do not open the link: nothing changes.
"""

CHANGE_EMAIL: Final = """\
Someone, probably you, wants this to be the e-mail address of an account
at {name}. Open this link in the browser in which you are signed in:

{link}

The link works once and expires on {until}.

If it was not you, no action is needed: nothing was changed, and no one
else can use the link.
"""

EMAIL_CHANGED: Final = """\
The e-mail address of your account at {name} was changed. The person
who changed it was signed in with your password and has access to
the new address.

If it was you, no action is needed.

If it was not you, take the account back here:

{link}

The link restores this address, ends every session, undoes every change
made since that person signed in, and lets you choose another password.
It works once and expires on {until}. Until then no
other account can use this address.
"""

SECOND_FACTOR: Final = """\
At your account at {name}, {what}.

If it was you, no action is needed.

If it was not you, choose another password at once, at
{origin}/forgot
and check your two-factor sign-in, at
{origin}/settings/second-factor
{undo}"""

WALLET_LINKED: Final = """\
A wallet was linked to your account at {name}. The account can now
list the payments of this wallet:

{wallet}

If it was you or your agent, no action is needed.

If not, someone else uses your account or an API key of it. End their
session at {origin}/settings/sessions
Revoke their key at {origin}/settings/api-keys
{undo}"""

ACCOUNT_REMOVED: Final = """\
Your account at {name} was deleted at its owner's request. Its API keys
and sessions no longer work, and its watchlists are deleted.

If it was not you, someone knew your password: choose another one wherever
you use it, and contact the operator of {name}.

This is the last e-mail about the account.
"""

SIGNAL_FIRED: Final = """\
{lines}
{message}
Token: {origin}/token/{mint}
Alert: {alert}

Pause this alert: {pause}

You received this e-mail because your alert "{name_of}" notifies you by
e-mail. If you did not create it, revoke the API key that did, at
{origin}/settings/api-keys
"""

SIGNAL_LIMIT: Final = """\
E-mails of {what} are paused until {resumes}:
{limit} were sent within 24 hours, which is the limit.

The alert stays active, and webhooks are still sent. Every firing is
listed with its time at
{alert}

No action is needed. To get fewer e-mails, set the alert to fire once or
once an hour, or give it a re-arm distance.

Pause this alert: {pause}
"""

SIGNAL_HOUR_LIMIT: Final = """\
Your alert "{name_of}"
has fired {limit} times within an hour, which is the limit. Until
{resumes} it sends no e-mail, webhook or message.

The alert stays active. Firings until then are listed with their time as
"not sent: limit of {limit} an hour reached" at
{alert}

No action is needed. To get fewer notifications, set the alert to fire
once or once an hour, or give it a re-arm distance.

Pause this alert: {pause}
"""

SPEND_ALERT: Final = """\
Your account has spent {spent} credits on {day} (UTC) so far.
Your spend alert is set to {level} credits a day.
You get one such e-mail a day.

See which API key spends them: {origin}/credits
To limit a key, give it a monthly cap: {origin}/settings/api-keys

Your API keys keep working. No action is needed.
"""

WEBHOOK_DISABLED: Final = """\
The webhook of your alert {signal} at {name} was disabled, because
it failed for too long or answered 410 Gone.

The alert stays active. Its firings are listed at
{alert}
To send webhooks again, press Resume there, or give the alert another
address.

If you no longer need the webhook, no action is needed.
"""

TEMPLATES: Final[Mapping[EmailKind, tuple[str, str]]] = {
    EmailKind.CONFIRM_APPLICATION: ("Confirm your application to {name}", CONFIRM_APPLICATION),
    EmailKind.APPLICATION_APPROVED: ("Your application was approved", APPLICATION_APPROVED),
    EmailKind.APPLICATION_REJECTED: ("Your application was not approved", APPLICATION_REJECTED),
    EmailKind.APPLICATION_REOPENED: ("Your application is reviewed again", APPLICATION_REOPENED),
    EmailKind.NEW_KEY: ("A new API key for your account", NEW_KEY),
    EmailKind.KEY_NETWORKS: ("An API key accepts more networks", KEY_NETWORKS),
    EmailKind.VERIFY_EMAIL: ("Verify your e-mail address", VERIFY_EMAIL),
    EmailKind.RESET_PASSWORD: ("Choose a new password", NEW_LOGIN),
    EmailKind.PASSWORD_CHANGED: ("Your password was changed", LOGIN_CHANGED),
    EmailKind.CLAIM_AGENT: ("Take over an agent account", CLAIM_AGENT),
    EmailKind.CHANGE_EMAIL: ("Confirm your new e-mail address", CHANGE_EMAIL),
    EmailKind.EMAIL_CHANGED: ("Your e-mail address was changed", EMAIL_CHANGED),
    EmailKind.SECOND_FACTOR: ("Your two-factor sign-in was changed", SECOND_FACTOR),
    EmailKind.ACCOUNT_REMOVED: ("Your account was deleted", ACCOUNT_REMOVED),
    EmailKind.SIGNAL_FIRED: ("{title}", SIGNAL_FIRED),
    EmailKind.SIGNAL_LIMIT: ("E-mails of {what} are paused", SIGNAL_LIMIT),
    EmailKind.SIGNAL_HOUR_LIMIT: (
        "An alert has fired {limit} times in an hour: {name_of}",
        SIGNAL_HOUR_LIMIT,
    ),
    EmailKind.SPEND_ALERT: ("{spent} credits spent on {day}", SPEND_ALERT),
    EmailKind.WALLET_LINKED: ("A wallet was linked to your account", WALLET_LINKED),
    EmailKind.WEBHOOK_DISABLED: (
        "The webhook of your alert {signal} was disabled",
        WEBHOOK_DISABLED,
    ),
}
