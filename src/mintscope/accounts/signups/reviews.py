"""Actions of administrators, such as reviews of applications and removals of accounts.

All of these actions are logged.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from mintscope.accounts import sessions
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, User, UserKind, username_of
from mintscope.accounts.keys.key import KeyStatus
from mintscope.accounts.keys.scope import READ_SCOPES, Scope, in_order, with_reads
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountStore, find_person, named_by, names_of
from mintscope.accounts.signups.application import (
    UNDECIDED,
    UNDO_MS,
    Application,
    ApplicationState,
    KeptApplication,
    SignupId,
    subject_of,
)
from mintscope.accounts.signups.signups import forget
from mintscope.kit.audit import EVERYTHING, Actor, Event, EventFilter, UserId, user_actor
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint, UnixMs

REQUESTED: Final = "requested token"
TRACKED: Final = "tracked token"
DECLINED: Final = "declined token"
MINT: Final = "mint:"
REQUESTS_READ_MAX: Final = 100
HISTORY_MAX: Final = 20
EVENTS_READ_MAX: Final = 100  # the most events of each action that an undo reads
FORMER: Final = 2  # the decisions that an undo needs: the undone one and the one before it
NO_SCOPES: Final[frozenset[Scope]] = frozenset()

REOPENED: Final = "reopened"
ASKED: Final = "asked"
GRANTED: Final = "granted"
REFUSED: Final = "refused"
DECISIONS: Final = {
    str(ApplicationState.APPROVED),
    str(ApplicationState.REJECTED),
    GRANTED,
    REFUSED,
}
HAD: Final = "had"  # in the audit log: the scopes before a decision on further scopes
TOO_LATE: Final = "a decision can be undone for a minute, and until another decision is made"
KEY_FETCHED: Final = (
    "the applicant has fetched the key, so the approval cannot be undone: revoke the key with"
    ' "Forget the application" or "Allow another key exchange"'
)

# The states of an application, each as the end of a sentence.
STANDINGS: Final = {
    ApplicationState.AWAITING_CONFIRMATION: "awaits the confirmation of its e-mail address",
    ApplicationState.AWAITING_APPROVAL: "awaits approval",
    ApplicationState.APPROVED: "was approved",
    ApplicationState.REJECTED: "was rejected",
    ApplicationState.KEY_ISSUED: "has its key already",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on an application, or on the scopes that its key requested.

    expected   the states in which the application can be decided; not used for a decision on scopes
    """

    signup_id: SignupId
    state: ApplicationState
    expected: frozenset[ApplicationState]
    scopes: frozenset[Scope]
    note: str
    actor: sessions.Reviewer
    reason: str = ""


@dataclass(eq=False, repr=False)
class Reviews:
    """Actions of administrators; each is one transaction with its audit row and e-mail, if any.

    An action does nothing and raises SessionEnded if the administrator's session has ended, or if
    the user is no longer an administrator.  Methods raise ServiceUnavailable.
    """

    store: AccountStore
    _: KW_ONLY
    clock: Clock
    entropy: Callable[[int], bytes]

    async def applications(
        self,
        state: ApplicationState | None = None,
        *,
        after: SignupId | None = None,
        limit: int,
        text: str = "",
    ) -> Sequence[Application]:
        """Return up to *limit* applications that follow the application *after*.

        state  only applications in this state, oldest first; None: all, newest first
        text   only applications whose form contains this text
        """
        return await self.store.read(lambda rows: rows.applications.page(state, after, limit, text))

    async def application(self, signup_id: SignupId) -> Application | None:
        """Return one application; None if it does not exist."""
        kept = await self.store.read(lambda rows: rows.applications.get(signup_id))
        return None if kept is None else kept.application

    async def counts(self) -> Mapping[ApplicationState, int]:
        """Return the number of applications in each state."""
        counts = await self.store.read(lambda rows: rows.applications.counts())
        return dict.fromkeys(ApplicationState, 0) | dict(counts)

    async def approve(
        self,
        signup_id: SignupId,
        *,
        scopes: frozenset[Scope],
        note: str,
        actor: sessions.Reviewer,
        unconfirmed: bool = False,
    ) -> Application:
        """Approve an application that awaits approval, or scopes that an issued key requested.

        With *unconfirmed*, an application that awaits confirmation can be approved, too.

        Raises    NotPossible if the application does not exist or is in another state; SessionEnded
        """
        approved = ApplicationState.APPROVED
        expected = UNDECIDED if unconfirmed else frozenset({ApplicationState.AWAITING_APPROVAL})
        return await self._decide(Decision(signup_id, approved, expected, scopes, note, actor))

    async def reject(
        self, signup_id: SignupId, *, note: str, actor: sessions.Reviewer, reason: str = ""
    ) -> Application:
        """Reject an undecided application, or refuse the scopes that an issued key requested.

        An e-mail is written only about a rejected application, and only to a confirmed address.

        reason   the text for the applicant; *note* is for administrators alone
        Raises   NotPossible if nothing awaits a decision, SessionEnded
        """
        rejected = ApplicationState.REJECTED
        return await self._decide(
            Decision(signup_id, rejected, UNDECIDED, NO_SCOPES, note, actor, reason)
        )

    async def _decide(self, decision: Decision) -> Application:
        at = self.clock.now()

        def decide(rows: AccountRows) -> Application:
            signup_id = decision.signup_id
            actor = sessions.expect_administrator(rows, decision.actor)
            kept = rows.applications.get(signup_id)
            if kept is not None and kept.application.asked_at is not None:
                return _decide_asked(rows, kept.application, decision, actor, at)
            if kept is None or kept.application.state not in decision.expected:
                wanted = " or ".join(STANDINGS[state] for state in sorted(decision.expected))
                raise _unexpected(signup_id, kept, expected=wanted)
            rows.applications.update(
                signup_id,
                state=decision.state,
                decided_at=at,
                decided_by=actor,
                scopes=decision.scopes,
                note=decision.note,
            )
            after = _reread(rows, signup_id)
            detail = {} if after.confirmed_at is not None else {"mailbox": "unconfirmed"}
            if decision.note:
                detail["note"] = decision.note
            if decision.reason:
                detail["told"] = decision.reason
            if decision.state is ApplicationState.APPROVED:
                detail["scopes"] = _tell_approved(rows, after, at)
            elif after.confirmed_at is not None:
                facts = {"reason": decision.reason} if decision.reason else {}
                rows.emails.insert(
                    EmailKind.APPLICATION_REJECTED, after.form.email, facts, None, at
                )
            rows.events.note(at, actor, str(decision.state), subject_of(signup_id), **detail)
            return after

        return await self.store.transact(decide)

    async def undo(
        self, signup_id: SignupId, *, decided_at: UnixMs, actor: sessions.Reviewer
    ) -> Application:
        """Undo the decision that was made at *decided_at*, within a minute after it.

        An applicant who was notified of the decision gets another e-mail.  If the decision granted
        scopes to a key, the key loses them, without an e-mail.

        Raises    NotPossible after a minute, after another decision, for an approval if the
                  applicant has fetched the key, and if there is no such application; SessionEnded
        """
        at = self.clock.now()

        def undo(rows: AccountRows) -> Application:
            by = sessions.expect_administrator(rows, actor)
            kept = rows.applications.get(signup_id)
            if kept is None:
                raise _unexpected(signup_id, None, expected="is there")
            before = kept.application
            if before.is_of_scopes:
                return _undo_asked(rows, before, decided_at, by, at)
            was = before.state
            if was is ApplicationState.KEY_ISSUED:
                raise sessions.NotPossible(KEY_FETCHED)
            if not rows.applications.reopen(signup_id, decided_at, UnixMs(at - UNDO_MS)):
                raise sessions.NotPossible(TOO_LATE)
            after = _reread(rows, signup_id)
            if was is ApplicationState.APPROVED or before.confirmed_at is not None:
                kind = EmailKind.APPLICATION_REOPENED
                rows.emails.insert(kind, after.form.email, {}, None, at)
            rows.events.note(at, by, REOPENED, subject_of(signup_id), was=was, now=after.state)
            return after

        return await self.store.transact(undo)

    async def history(self, signup_id: SignupId) -> Sequence[Event]:
        """Return the newest HISTORY_MAX events of an application, newest first."""
        wanted = EventFilter(subject_of(signup_id))
        return [event for _, event in await self.events(limit=HISTORY_MAX, wanted=wanted)]

    async def reset(self, signup_id: SignupId, *, actor: sessions.Reviewer) -> Application:
        """Revoke the issued key, and allow another exchange of the secret.  Raises NotPossible."""
        at = self.clock.now()

        def reset(rows: AccountRows) -> Application:
            by = sessions.expect_administrator(rows, actor)
            kept = rows.applications.get(signup_id)
            issued = ApplicationState.KEY_ISSUED
            if (
                kept is None
                or kept.application.user_removed
                or kept.application.state is not issued
            ):
                raise _unexpected(signup_id, kept, expected=STANDINGS[issued])
            rows.applications.update(
                signup_id,
                state=ApplicationState.APPROVED,
                issued_at=None,
                key_nonce=None,
                exchange_redeem=None,
                asked_at=None,
            )
            sessions.revoke_issued(rows, signup_id, by, at)
            after = _reread(rows, signup_id)
            _tell_approved(rows, after, at)
            rows.events.note(at, by, "reset", subject_of(signup_id))
            return after

        return await self.store.transact(reset)

    async def forget(self, signup_id: SignupId, *, actor: sessions.Reviewer) -> None:
        """Delete the application, revoke its keys, and delete its agent with all personal data.

        The agent may be blocked.  If the keys belong to a person, the person's account stays.
        Raises    NotPossible if there is no such application, or if a payment of its agent is in
                  progress; SessionEnded
        """
        at = self.clock.now()

        def remove_all(rows: AccountRows) -> None:
            by = sessions.expect_administrator(rows, actor)
            kept = rows.applications.get(signup_id)
            if kept is None:
                raise _unexpected(signup_id, None, expected="is there")
            owner = None if kept.owner is None else rows.users.find(kept.owner)
            agent = None if owner is None or owner.user.kind is UserKind.PERSON else owner.user
            if agent is not None:
                sessions.expect_removable(rows, agent)
            sessions.revoke_issued(rows, signup_id, by, at)
            if agent is not None:
                sessions.erase(rows, agent, by, at, because=subject_of(signup_id))
            forget(rows, signup_id, "forgotten", by, at, state=kept.application.state)

        await self.store.transact(remove_all)

    async def users(self, *, before: UserId | None = None, limit: int) -> Sequence[User]:
        """Return up to *limit* users that were not removed, newest first.

        before   only users with a smaller id; None: all
        """
        return await self.store.read(lambda rows: rows.users.newest(before, limit))

    async def user(self, user_id: UserId) -> User | None:
        """Return a user; None if there is no such user, or if the user was removed."""
        kept = await self.store.read(lambda rows: rows.users.get(user_id))
        return None if kept is None else kept.user

    async def remove_user(self, user_id: UserId, *, actor: sessions.Reviewer) -> None:
        """Remove an account with its keys and sessions; its application cannot be exchanged again.

        Raises NotPossible if there is no such account, if it is the last administrator's, or if a
        payment of its user is in progress; SessionEnded.
        """
        now = self.clock.now()
        await self.store.transact(lambda rows: sessions.remove_user(rows, user_id, actor, now))

    async def drop_second_factor(self, user_id: UserId, *, actor: sessions.Reviewer) -> None:
        """Remove a person's second factors, so that the password suffices; end all sessions.

        The person gets an e-mail about this.
        Raises    NotPossible if there is no such person or no second factor; SessionEnded
        """
        at = self.clock.now()

        def drop(rows: AccountRows) -> None:
            by = sessions.expect_administrator(rows, actor)
            kept = rows.users.get(user_id)
            if kept is None or not kept.user.has_second_factor:
                raise sessions.NotPossible(f"user {user_id} has no two-factor sign-in")
            sessions.drop_factors(rows, user_id)
            sessions.end_sessions(rows, user_id)
            rows.events.note(at, by, "removed second factor", f"user:{user_id}")
            facts = {"what": "an administrator turned off your two-factor sign-in"}
            rows.emails.tell_owner(kept.user, EmailKind.SECOND_FACTOR, facts, at)

        await self.store.transact(drop)

    async def make_administrator(
        self, email: EmailAddress, *, password_hash: str, actor: Actor
    ) -> tuple[User, bool]:
        """Make the person with *email* an administrator; create an account if there is none.

        If an existing account has an address that was never verified, set the account's password,
        end its sessions, second factors, links and keys, and unlink its Telegram chat.
        Return the user, and whether the account was created.
        """
        new = NewUser(
            kind=UserKind.PERSON,
            username=username_of(email, self.entropy),
            email=email,
            password_hash=password_hash,
            created_at=self.clock.now(),
        )
        at = new.created_at

        def promote(rows: AccountRows) -> tuple[User, bool]:
            person = find_person(rows.users, email)
            if person is None:
                user_id = rows.users.insert(new)
                rows.events.note(at, actor, "created", f"user:{user_id}")
            else:
                user_id = person.user.user_id
                if person.user.verified_at is None:  # a stranger may have created the account
                    rows.users.update(user_id, password_hash=password_hash)
                    sessions.unlink_telegram(rows, user_id, actor, at)
                    revoked = str(sessions.end_access(rows, user_id, at))
                    subject = f"user:{user_id}"
                    rows.events.note(at, actor, sessions.RESET, subject, keys_revoked=revoked)
            if person is None or not person.user.is_administrator:
                rows.users.update(user_id, administrator=True)
                rows.events.note(at, actor, "made administrator", f"user:{user_id}")
            after = rows.users.get(user_id)
            assert after is not None, "it was read or added just now"
            return after.user, person is None

        return await self.store.transact(promote)

    async def events(
        self, *, before: int | None = None, limit: int, wanted: EventFilter = EVERYTHING
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events of the audit log, each with its ID, newest first.

        before   only events with a smaller ID; None: all
        wanted   only events that this filter selects
        """
        return await self.store.read(lambda rows: rows.events.newest(before, limit, wanted))

    async def names(self, subjects: Collection[str]) -> Mapping[str, str]:
        """Return the display names of those *subjects* of the audit log that have one."""
        return await self.store.read(lambda rows: names_of(rows, subjects))

    async def subject_of(self, email: EmailAddress) -> str | None:
        """Return the audit-log name of the person with *email*.

        If there is no such person, return the name of the application with *email*; None if there
        is no such application either.
        """
        return await self.store.read(lambda rows: named_by(rows, email))

    async def ask_for_token(self, mint: Mint, user_id: UserId, *, is_tracked: bool) -> None:
        """Record that a user requested *mint* to be tracked, and whether this was done at once."""
        action = TRACKED if is_tracked else REQUESTED
        now = self.clock.now()
        await self.store.transact(
            lambda rows: rows.events.note(now, user_actor(user_id), action, f"{MINT}{mint}")
        )

    async def asked_tokens(self) -> Mapping[Mint, Event]:
        """Return the newest request to track each mint, newest first; omit declined requests.

        Only the newest REQUESTS_READ_MAX requests are read.
        """

        def work(rows: AccountRows) -> dict[Mint, Event]:
            wanted = EventFilter(action=REQUESTED)
            newest: dict[str, tuple[int, Event]] = {}
            for number, event in rows.events.newest(None, REQUESTS_READ_MAX, wanted):
                newest.setdefault(event.subject, (number, event))
            return {
                Mint(subject.removeprefix(MINT)): event
                for subject, (number, event) in newest.items()
                if number > rows.events.last_number(subject, DECLINED)
            }

        return await self.store.read(work)

    async def record(
        self, action: str, subject: str, *, actor: sessions.Reviewer, **detail: str
    ) -> None:
        """Record an administrator's action in the audit log, before it is done.

        Raises SessionEnded.
        """
        now = self.clock.now()

        def work(rows: AccountRows) -> None:
            rows.events.note(
                now, sessions.expect_administrator(rows, actor), action, subject, **detail
            )

        await self.store.transact(work)


def _decide_asked(
    rows: AccountRows, before: Application, decision: Decision, actor: Actor, at: UnixMs
) -> Application:
    """Grant or refuse the scopes that a key requested; the application's state does not change."""
    signup_id = before.signup_id
    is_granted = decision.state is ApplicationState.APPROVED
    added = with_reads(decision.scopes) if is_granted else NO_SCOPES
    rows.applications.update(
        signup_id,
        decided_at=at,
        decided_by=actor,
        scopes=before.scopes | added,
        note=decision.note,
        asked_at=None,
    )
    for line in sessions.issued_keys(rows, signup_id):
        if added and line.status(at) is KeyStatus.ACTIVE:
            rows.api_keys.update(line.key_id, scopes=line.scopes | added)
    detail = {"scopes": ", ".join(in_order(added))} if is_granted else {}
    detail[HAD] = ", ".join(in_order(before.scopes))
    if decision.note:
        detail["note"] = decision.note
    action = GRANTED if is_granted else REFUSED
    rows.events.note(at, actor, action, subject_of(signup_id), **detail)
    return _reread(rows, signup_id)


def _undo_asked(
    rows: AccountRows, before: Application, decided_at: UnixMs, actor: Actor, at: UnixMs
) -> Application:
    """Undo a decision on scopes that a key requested: the keys lose the granted scopes.

    The earlier scopes and the earlier decision are read from the audit log.  The request awaits a
    decision again, or a later request of the key if there is one.
    """
    signup_id = before.signup_id
    decisions = _standing(_events(rows, signup_id, *DECISIONS, REOPENED))
    asked = next((event.at for event in _events(rows, signup_id, ASKED)), at)
    is_newest = before.decided_at == decided_at and before.can_be_undone(at)
    if not is_newest or len(decisions) < FORMER or HAD not in decisions[0].detail:
        raise sessions.NotPossible(TOO_LATE)
    undone, former = decisions[:FORMER]
    scopes = frozenset(Scope(each) for each in undone.detail[HAD].split(", ") if each)
    rows.applications.update(
        signup_id,
        decided_at=former.at,
        decided_by=former.actor,
        scopes=scopes,
        note=former.detail.get("note", ""),
        asked_at=before.asked_at or asked,
    )
    for line in sessions.issued_keys(rows, signup_id):
        if line.status(at) is KeyStatus.ACTIVE:
            rows.api_keys.update(line.key_id, scopes=line.scopes & (READ_SCOPES | scopes))
    state = before.state
    rows.events.note(at, actor, REOPENED, subject_of(signup_id), was=undone.action, now=state)
    return _reread(rows, signup_id)


def _events(rows: AccountRows, signup_id: SignupId, *actions: str) -> list[Event]:
    """Return up to EVENTS_READ_MAX events for each of *actions* on an application, newest first."""
    # Each action is read separately, so that repeated requests of a key cannot hide decisions.
    found = dict[int, Event]()
    for action in actions:
        wanted = EventFilter(subject_of(signup_id), action)
        found.update(rows.events.newest(None, EVENTS_READ_MAX, wanted))
    return [found[row_id] for row_id in sorted(found, reverse=True)]


def _standing(events: Sequence[Event]) -> list[Event]:
    """Return the decisions among *events*, newest first, without those that were undone."""
    found = list[Event]()
    undone_count = 0
    for event in events:
        if event.action == REOPENED:
            undone_count += 1
        elif event.action in DECISIONS and undone_count:
            undone_count -= 1
        elif event.action in DECISIONS:
            found.append(event)
    return found


def _tell_approved(rows: AccountRows, application: Application, at: UnixMs) -> str:
    """E-mail the applicant that the secret can be exchanged; return the key's scopes as text."""
    scopes = ", ".join(in_order(READ_SCOPES | application.scopes))
    kind = EmailKind.APPLICATION_APPROVED
    facts = {"scopes": scopes}
    rows.emails.insert(kind, application.form.email, facts, None, at)
    return scopes


def _reread(rows: AccountRows, signup_id: SignupId) -> Application:
    kept = rows.applications.get(signup_id)
    assert kept is not None, "it was changed just now"
    return kept.application


def _unexpected(
    signup_id: SignupId, was: KeptApplication | None, *, expected: str
) -> sessions.NotPossible:
    if was is None:
        return sessions.NotPossible(f"there is no application with the number {signup_id}")
    application = was.application
    standing = "belongs to an account that was removed" if application.user_removed else None
    return sessions.NotPossible(
        f"expected an application that {expected};"
        f" application {signup_id} {standing or STANDINGS[application.state]}"
    )
