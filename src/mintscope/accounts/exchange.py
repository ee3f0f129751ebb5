"""Exchanging an application secret for the API key, once."""

from dataclasses import dataclass

from mintscope.accounts.address import Email
from mintscope.accounts.api_key import KeyLine
from mintscope.accounts.application import Application
from mintscope.credentials import ApiKey


@dataclass(frozen=True, slots=True)
class Applicant:
    """An application, and whether whoever asks knows its secret."""

    application: Application
    is_known: bool


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key, shown once."""

    api_key: ApiKey
    line: KeyLine
    username: str


class ExchangeDesk:
    """Hands out the key of an application."""

    async def recognise(self, email: Email, secret: str) -> Applicant | None:
        """Return the application of *email* if *secret* is its own; None: no such thing.

        One hash and one query, whatever the answer: unknown address, wrong secret, malformed
        secret, any state.
        """
        raise NotImplementedError

    async def exchange(
        self, applicant: Applicant, secret: str, *, redelivery_key: str | None
    ) -> IssuedKey:
        """Issue the one key, to the account it belongs to, and write to the mailbox.

        The change is one statement, conditional on the state `approved`: of any number at
        once, in any number of processes, one is told the key, the others KeyAlreadyExists. With
        the *redelivery_key* of an exchange in the last ten minutes the key is told again.

        The key goes to the person who has verified the same mailbox, if there is one; else
        to an agent account of its own, made here.
        Scopes    the read scopes and those granted at approval
        Raises    NotApproved, KeyAlreadyExists, AccountNotFound (the account was removed;
                  told before KeyAlreadyExists), ServiceUnavailable
        """
        raise NotImplementedError
