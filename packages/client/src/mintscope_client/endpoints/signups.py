"""Requests with which an agent applies for an API key."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.requests import bare_call
from mintscope_client.endpoints.accounts import Scope

UserType: TypeAlias = Literal["trader", "provider", "both"]


class SignedUp(msgspec.Struct, frozen=True, rename="camel"):
    """A new application for an API key; its secret is shown only once."""

    signup_id: int
    application_secret: str
    instructions: str


class ConfirmedEmail(msgspec.Struct, frozen=True):
    """The answer to a confirmed mailbox; *message* says what the applicant must do next."""

    message: str


class ApplicationStanding(msgspec.Struct, frozen=True):
    """The status of an application for an API key; *message* says what to do next."""

    state: str
    message: str


class ExchangedKey(msgspec.Struct, frozen=True, rename="camel"):
    """The API key of an approved application; it is shown only once."""

    api_key: str
    user_id: int
    username: str
    key_hint: str
    scopes: list[str]
    message: str


def sign_up(  # noqa: PLR0913 - the fields of an application
    email: str,
    motivation: str,
    *,
    user_type: UserType = "trader",
    scopes: Sequence[Scope] = (),
    telegram: str | None = None,
    twitter: str | None = None,
) -> ApiCall[SignedUp]:
    """Return the call that applies for an API key with *scopes* in addition to the read scopes."""
    fields = {"email": email, "motivation": motivation, "userType": user_type}
    optional = {"telegram": telegram, "twitter": twitter, "scopes": list(scopes) or None}
    body = fields | {name: value for name, value in optional.items() if value is not None}
    return bare_call("public/beta-signup", SignedUp, body, takes_key=True)


def confirm_email(email: str, secret: str, code: str) -> ApiCall[ConfirmedEmail]:
    """Return the call that confirms the mailbox of an application with the code of its e-mail."""
    body = {"email": email, "applicationSecret": secret, "code": code}
    return bare_call("auth/confirm-email", ConfirmedEmail, body)


def application_status(email: str, secret: str) -> ApiCall[ApplicationStanding]:
    """Return the call for the status of an application for an API key."""
    body = {"email": email, "applicationSecret": secret}
    return bare_call("auth/application-status", ApplicationStanding, body)


def exchange_secret(email: str, secret: str) -> ApiCall[ExchangedKey]:
    """Return the call that exchanges the secret of an approved application for its API key."""
    body = {"email": email, "applicationSecret": secret}
    return bare_call("auth/exchange-secret", ExchangedKey, body, takes_key=True)
