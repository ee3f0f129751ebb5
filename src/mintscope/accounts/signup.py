"""Signing up an agent: one application for one mailbox, confirmed by whoever reads it."""

from dataclasses import dataclass

from mintscope.accounts.address import Email
from mintscope.accounts.application import ApplicationState, Form, SignupId
from mintscope.credentials import ApplicationSecret


@dataclass(frozen=True, slots=True)
class Signup:
    """What the applicant is given, once."""

    signup_id: SignupId
    secret: ApplicationSecret


class SignupDesk:
    """Takes applications."""

    async def apply(self, form: Form, *, redelivery_key: str | None) -> Signup:
        """Keep the application and write to its mailbox, in one transaction.

        With the *redelivery_key* of an application made in the last ten minutes, by
        the same address and with the same form, its answer is given again.

        Raises    DuplicateApplication, ServiceUnavailable
        """
        raise NotImplementedError

    async def confirm_by_code(self, email: Email, secret: str, code: str) -> None:
        """Confirm the mailbox with the code sent there; at most five guesses.

        Confirming what is confirmed changes nothing.
        Raises    InvalidCredentials unless *secret* is that of *email*; InvalidFields for a wrong
                  or used up code
        """
        raise NotImplementedError

    async def state(self, email: Email, secret: str) -> ApplicationState:
        """Return how far the application has come.

        Raises    InvalidCredentials unless *secret* is that of *email*; AccountNotFound when the
                  account that came of it was removed
        """
        raise NotImplementedError

    async def find_by_link(self, text: str) -> Email | None:
        """Return whose application the link's last segment *text* confirms; None: no such link."""
        raise NotImplementedError

    async def confirm_by_link(self, text: str) -> bool:
        """Confirm the mailbox; False if the link is unknown, used or has expired."""
        raise NotImplementedError

    async def disown(self, text: str) -> bool:
        """Delete the application that the reader of the mailbox never made; False as above.

        Only one that nobody has decided about goes.
        """
        raise NotImplementedError
