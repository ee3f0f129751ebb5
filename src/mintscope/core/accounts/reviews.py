"""Reviewing applications and removing accounts: what administrators do, every step logged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    UNDECIDED,
    Application,
    ApplicationState,
    SignupId,
)
from mintscope.core.accounts.audit import Actor, Event
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.user import User, UserId, username_of

SUFFIX_BYTES: Final = 4
NO_SCOPES: Final[frozenset[Scope]] = frozenset()

# Whoever acts: a person in a session, or somebody whom the machine itself vouches for.
Reviewer = Session | Actor

# How an application is, in a sentence about it.
STANDINGS: Final = {
    ApplicationState.AWAITING_CONFIRMATION: "awaits the confirmation of its mailbox",
    ApplicationState.AWAITING_APPROVAL: "awaits approval",
    ApplicationState.APPROVED: "was approved",
    ApplicationState.REJECTED: "was rejected",
    ApplicationState.KEY_ISSUED: "has got its key",
}


class NotPossible(Exception):
    """The state of the subject does not allow it; the message says what was expected and was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What an administrator decided about an application.

    state     approved or rejected
    expected  the states that it can be decided in
    """

    signup_id: SignupId
    state: ApplicationState
    expected: frozenset[ApplicationState]
    scopes: frozenset[Scope]
    note: str
    actor: Reviewer
    at: UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A person about to be made an administrator; *username*, if the account has to be made."""

    email: EmailAddress
    username: str
    password_hash: str
    actor: Actor
    at: UnixMs


class ReviewStore(Protocol):
    """Raises ServiceUnavailable from every verb.

    Each verb that writes is one transaction with its audit rows and its letter; it raises
    NotPossible, and does nothing, when the subject is not as it must be, and
    SessionEnded for a session that was ended meanwhile, or is no administrator's any more.
    """

    async def applications(
        self, state: ApplicationState | None, *, after: SignupId | None, limit: int
    ) -> Sequence[Application]:
        """Return applications: oldest first with a *state*, else newest first."""
        ...

    async def application(self, signup_id: SignupId) -> Application | None:
        """Return one."""
        ...

    async def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many there are in the states that there are any in."""
        ...

    async def decide(self, decision: Decision) -> Application:
        """Approve or reject; who never confirmed a mailbox is not written that it was rejected."""
        ...

    async def reset(self, signup_id: SignupId, *, actor: Reviewer, at: UnixMs) -> Application:
        """Revoke the key that was issued, and approve anew."""
        ...

    async def forget(self, signup_id: SignupId, *, actor: Reviewer, at: UnixMs) -> None:
        """Delete the application, its key, and the agent account that was made for it."""
        ...

    async def users(self, *, before: UserId | None, limit: int) -> Sequence[User]:
        """Return the users who were not removed, newest first."""
        ...

    async def user(self, user_id: UserId) -> User | None:
        """Return one who was not removed."""
        ...

    async def remove_user(self, user_id: UserId, *, actor: Reviewer, at: UnixMs) -> None:
        """Remove an account that is not the last administrator's."""
        ...

    async def promote(self, promotion: Promotion) -> tuple[User, bool]:
        """Make a person an administrator; True: the account was made for it."""
        ...

    async def events(self, *, before: int | None, limit: int) -> Sequence[tuple[int, Event]]:
        """Return the audit log, newest first."""
        ...


class Reviews:
    """The administrators' verbs: each is one transaction with its audit row and its letter.

    Whatever is done in a session raises SessionEnded if that was ended a moment before.

    entropy   returns so many bytes of a cryptographic generator
    """

    def __init__(
        self, store: ReviewStore, *, clock: Clock, entropy: Callable[[int], bytes]
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

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
        return await self._store.applications(state, after=after, limit=limit)

    async def application(self, signup_id: SignupId) -> Application | None:
        """Return one."""
        return await self._store.application(signup_id)

    async def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many applications there are in each state."""
        return dict.fromkeys(ApplicationState, 0) | dict(await self._store.counts())

    async def approve(
        self,
        signup_id: SignupId,
        *,
        scopes: frozenset[Scope],
        note: str,
        actor: Reviewer,
        unconfirmed: bool = False,
    ) -> Application:
        """Approve what awaits approval; with *unconfirmed* also what awaits confirmation.

        Raises    NotPossible
        """
        decision = Decision(
            signup_id=signup_id,
            state=ApplicationState.APPROVED,
            expected=UNDECIDED if unconfirmed else frozenset({ApplicationState.AWAITING_APPROVAL}),
            scopes=scopes,
            note=note,
            actor=actor,
            at=self._clock.now(),
        )
        return await self._store.decide(decision)

    async def reject(self, signup_id: SignupId, *, note: str, actor: Reviewer) -> Application:
        """Reject what is not decided yet.  Raises NotPossible."""
        decision = Decision(
            signup_id=signup_id,
            state=ApplicationState.REJECTED,
            expected=UNDECIDED,
            scopes=NO_SCOPES,
            note=note,
            actor=actor,
            at=self._clock.now(),
        )
        return await self._store.decide(decision)

    async def reset(self, signup_id: SignupId, *, actor: Reviewer) -> Application:
        """Revoke the issued key and let the same secret be exchanged once more.

        Raises    NotPossible
        """
        return await self._store.reset(signup_id, actor=actor, at=self._clock.now())

    async def forget(self, signup_id: SignupId, *, actor: Reviewer) -> None:
        """Delete the application, revoking its key: its address may apply again.

        An agent account that was made for it goes with it.
        Raises    NotPossible
        """
        await self._store.forget(signup_id, actor=actor, at=self._clock.now())

    async def users(self, *, before: UserId | None = None, limit: int = 50) -> Sequence[User]:
        """Return the users who were not removed, newest first."""
        return await self._store.users(before=before, limit=limit)

    async def user(self, user_id: UserId) -> User | None:
        """Return one who was not removed."""
        return await self._store.user(user_id)

    async def remove_user(self, user_id: UserId, *, actor: Reviewer) -> None:
        """Remove an account: its keys are revoked, its sessions ended, its address is free.

        The application that its key came of stays, and cannot be exchanged any more.
        Raises    NotPossible for one that does not exist, and for the last administrator
        """
        await self._store.remove_user(user_id, actor=actor, at=self._clock.now())

    async def make_administrator(
        self, email: EmailAddress, *, password_hash: str, actor: Actor
    ) -> tuple[User, bool]:
        """Make the person of *email* an administrator; True: the account was made for it.

        An account that exists keeps its password unless it never verified its mailbox: then it
        gets the new one, and its sessions and keys end.
        """
        promotion = Promotion(
            email=email,
            username=username_of(email, self._entropy(SUFFIX_BYTES).hex()),
            password_hash=password_hash,
            actor=actor,
            at=self._clock.now(),
        )
        return await self._store.promote(promotion)

    async def events(
        self, *, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, Event]]:
        """Return the audit log with its row numbers, newest first."""
        return await self._store.events(before=before, limit=limit)


def unexpected(signup_id: SignupId, was: Application | None, *, expected: str) -> NotPossible:
    """Return the complaint about an application that is not as *expected*."""
    if was is None:
        return NotPossible(f"expected an application; there is none with the number {signup_id}")
    standing = "belongs to an account that was removed" if was.user_removed else None
    return NotPossible(
        f"expected an application that {expected};"
        f" application {signup_id} {standing or STANDINGS[was.state]}"
    )
