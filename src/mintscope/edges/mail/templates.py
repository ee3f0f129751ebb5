"""The texts of e-mails: why one was sent, what to do, and what if it was not you.

No text of an applicant or a user gets in: a person who enters a stranger's address must not be
able to write to the stranger in our name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mintscope.base.primitives import UnixMs
from mintscope.base.time import utc
from mintscope.core.accounts.mail.email import Draft, Email, EmailKind
from mintscope.core.accounts.proof import Purpose, link_text
from mintscope.core.accounts.secrets import AccountSecrets

HOST_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
LINK_OF: Final[Mapping[EmailKind, tuple[Purpose, str]]] = {
    EmailKind.CONFIRM_APPLICATION: (Purpose.CONFIRM_APPLICATION, "confirm"),
    EmailKind.VERIFY_EMAIL: (Purpose.VERIFY_EMAIL, "verify"),
    EmailKind.RESET_PASSWORD: (Purpose.RESET_PASSWORD, "reset"),
    EmailKind.CLAIM_AGENT: (Purpose.CLAIM_AGENT, "claim"),
}


class EmailWithoutLink(ValueError):
    """The proof that the e-mail was to carry is gone: there is nothing left to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What stands in an e-mail, beside its greeting and its signature."""

    origin: str
    name: str
    link: str
    code: str
    until: str
    facts: Mapping[str, str]


def compose(draft: Draft, *, origin: str, secrets: AccountSecrets, name: str) -> Email:
    """Write the e-mail of *draft*; always the same.

    origin    what links begin with, as configured, never as a request says
    name      of this installation
    Raises    EmailWithoutLink
    """
    link = code = until = ""
    if draft.kind in LINK_OF:
        if draft.proof is None:
            raise EmailWithoutLink(f"e-mail {draft.email_id}: expected a proof; there is none")
        purpose, path = LINK_OF[draft.kind]
        last = link_text(draft.proof.proof_id, secrets.link_of(draft.proof.nonce))
        link = f"{origin}/{path}/{last}"
        code = secrets.code_of(draft.proof.nonce)
        until = _moment(UnixMs(draft.written_at + purpose.lifetime_ms))
    words = _Words(origin=origin, name=name, link=link, code=code, until=until, facts=draft.facts)
    subject, write = TEMPLATES[draft.kind]
    return Email(
        recipient=draft.recipient,
        subject=subject.format(name=name),
        text=f"Hello,\n\n{write(words)}\n-- \n{name}, {origin}\n",
        message_id=_message_id(draft, origin, secrets),
    )


def _message_id(draft: Draft, origin: str, secrets: AccountSecrets) -> str:
    host = urlsplit(origin).hostname or ""
    domain = host if host and HOST_SIGNS.issuperset(host) else "localhost"
    return f"<{secrets.email_name(draft.email_id, draft.written_at)}@{domain}>"


def _moment(at: UnixMs) -> str:
    return f"{utc(at):%d %B %Y, %H:%M} UTC"


def _confirm_application(words: _Words) -> str:
    return f"""\
Access to {words.name} was applied for with this e-mail address.

If it was you, or an agent of yours, please confirm that the address is
yours. Open this page and press "Yes, confirm the application":

{words.link}

Or let the agent send this code to {words.origin}/api/auth/confirm-email :

{words.code}

Both are good until {words.until}.

If it was not you, open the page and press "No, this was not me": the
application is deleted. If you do nothing, it is deleted after three days.
"""


def _application_approved(words: _Words) -> str:
    return f"""\
Your application for access to {words.name} was approved.

Your agent can now exchange its application secret for the API key, once,
with POST {words.origin}/api/auth/exchange-secret
The key will have these scopes: {words.facts.get("scopes", "")}

You get this e-mail because the application was made with this address.
If you know nothing of it, please tell the operator of {words.name}.
"""


def _application_rejected(words: _Words) -> str:
    return f"""\
Thank you for your interest in {words.name}. Your application for access
was not approved.

You get this e-mail because the application was made with this address.
There is nothing you need to do.
"""


def _new_key(words: _Words) -> str:
    return f"""\
There is a new API key for your account at {words.name}.

Key:     svc_live_{words.facts.get("hint", "")}
Scopes:  {words.facts.get("scopes", "")}

If you or your agent made it, there is nothing you need to do.

If not, another person has access. If you sign in here with a password,
choose a new one at
{words.origin}/forgot
and revoke the key at
{words.origin}/settings/api-keys
If an agent applied with your address, tell the operator of {words.name}.
"""


def _verify_email(words: _Words) -> str:
    return f"""\
Please verify that this e-mail address is yours. Open this link in the
browser in which you are signed in to {words.name}:

{words.link}

It is good until {words.until}, once.

You get this e-mail because an account was made with this address. If
it was not you, do not open the link. You can take the account over, and
shut them out of it, by choosing a password at
{words.origin}/forgot
"""


def _reset_password(words: _Words) -> str:
    return f"""\
Someone, probably you, wants to set a new password for your account at
{words.name}. Open this page to choose one:

{words.link}

It is good until {words.until}, once.

If it was not you, there is nothing you need to do: your password stays as
it is, and no one else can use the link.
"""


def _password_changed(words: _Words) -> str:
    return f"""\
The password of your account at {words.name} was changed, and all other
sessions were ended.

If it was you, there is nothing you need to do.

If it was not you, choose another password at once, at
{words.origin}/forgot
and look for API keys that you do not know, at
{words.origin}/settings/api-keys
"""


def _claim_agent(words: _Words) -> str:
    return f"""\
Someone, probably you, wants to take the agent account
{words.facts.get("username", "")} into a personal account at {words.name}.
Its API keys go on working, and will be listed with that person's own.

To agree, open this link in the browser in which you are signed in:

{words.link}

It is good until {words.until}, once.

If it was not you, do not open it: everything stays as it is.
"""


TEMPLATES: Final[Mapping[EmailKind, tuple[str, Callable[[_Words], str]]]] = {
    EmailKind.CONFIRM_APPLICATION: ("Confirm your application to {name}", _confirm_application),
    EmailKind.APPLICATION_APPROVED: ("Your application was approved", _application_approved),
    EmailKind.APPLICATION_REJECTED: ("Your application was not approved", _application_rejected),
    EmailKind.NEW_KEY: ("A new API key for your account", _new_key),
    EmailKind.VERIFY_EMAIL: ("Verify your e-mail address", _verify_email),
    EmailKind.RESET_PASSWORD: ("Choose a new password", _reset_password),
    EmailKind.PASSWORD_CHANGED: ("Your password was changed", _password_changed),
    EmailKind.CLAIM_AGENT: ("Take over an agent account", _claim_agent),
}
