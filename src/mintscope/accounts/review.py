"""Reviewing applications and removing accounts: what administrators do, every step logged."""

from collections.abc import Mapping, Sequence

from mintscope.accounts.application import Application, ApplicationState, SignupId
from mintscope.accounts.audit import Actor, Event
from mintscope.accounts.scope import Scope
from mintscope.accounts.user import User, UserId


class NotPossible(Exception):
    """The state of the subject does not allow it; the message says what was expected and was."""


class ReviewDesk:
    """The administrators' verbs: each is one transaction with its audit row and its letter."""

    async def applications(
        self,
        state: ApplicationState | None = None,
        *,
        after: SignupId | None = None,
        limit: int = 50,
    ) -> Sequence[Application]:
        """Return applications: the longest waiting first with a *state*, else the newest first.

        after   go on behind this one, in that order
        """
        raise NotImplementedError

    async def application(self, signup_id: SignupId) -> Application | None:
        """Return one."""
        raise NotImplementedError

    async def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many applications there are in each state."""
        raise NotImplementedError

    async def approve(
        self,
        signup_id: SignupId,
        *,
        scopes: frozenset[Scope],
        note: str,
        actor: Actor,
        unconfirmed: bool = False,
    ) -> Application:
        """Approve what awaits approval; with *unconfirmed* also what awaits confirmation.

        Raises    NotPossible
        """
        raise NotImplementedError

    async def reject(self, signup_id: SignupId, *, note: str, actor: Actor) -> Application:
        """Reject what is not decided yet.  Raises NotPossible."""
        raise NotImplementedError

    async def reset(self, signup_id: SignupId, *, actor: Actor) -> Application:
        """Revoke the issued key and let the same secret be exchanged once more.

        Raises    NotPossible
        """
        raise NotImplementedError

    async def forget(self, signup_id: SignupId, *, actor: Actor) -> None:
        """Delete the application, revoking its key: its address may apply again.

        Raises    NotPossible
        """
        raise NotImplementedError

    async def users(self, *, before: UserId | None = None, limit: int = 50) -> Sequence[User]:
        """Return the users who were not removed, newest first."""
        raise NotImplementedError

    async def user(self, user_id: UserId) -> User | None:
        """Return one who was not removed."""
        raise NotImplementedError

    async def remove_user(self, user_id: UserId, *, actor: Actor) -> None:
        """Remove an account: its keys are revoked, its sessions ended, its address is free.

        Raises    NotPossible for one that does not exist, and for the last administrator
        """
        raise NotImplementedError

    async def make_administrator(
        self, email: str, *, password_hash: str, actor: Actor
    ) -> tuple[User, bool]:
        """Make the person of *email* an administrator; True: the account was made for it.

        An account that exists keeps its password unless it never verified its mailbox: then it
        gets the new one, and its sessions and keys end.
        """
        raise NotImplementedError

    async def events(
        self, *, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, Event]]:
        """Return the audit log with its row numbers, newest first."""
        raise NotImplementedError
