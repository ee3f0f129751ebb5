"""Actions of applicants, recipients and administrators in any order, compared with a model."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Purpose
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.application import parse_form
from mintscope.accounts.signups.signups import IssuedKey, Signup
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import hash_credential
from mintscope.kit.errors import (
    AccountNotFound,
    DuplicateApplication,
    InvalidFields,
    KeyAlreadyExists,
    NotApproved,
)
from support.oracles.account_books import Books
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

T = TypeVar("T")

EMAILS: Final = ["ann@example.org", "ben@example.org"]
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
LAPSE_MS, REDELIVERY_MS, GUESSES_MAX = 72 * HOUR_MS, 10 * MINUTE_MS, 5
WAITING, PENDING, APPROVED, REJECTED, ISSUED = (
    "awaiting_confirmation",
    "awaiting_approval",
    "approved",
    "rejected",
    "key_issued",
)
REFUSALS: Final = (
    AccountNotFound,
    DuplicateApplication,
    InvalidFields,
    KeyAlreadyExists,
    NotApproved,
    NotPossible,
)
emails = st.sampled_from(EMAILS)
keys = st.sampled_from([None, "a-redelivery-key-one", "a-redelivery-key-two"])


@dataclass
class Model:
    """The expected state of an application; the agent gets a key for each of its *approvals*."""

    made: Signup
    key: str | None
    at: int
    link: str
    code: str
    state: str = WAITING
    is_confirmed: bool = False
    is_link_used: bool = False
    guesses: int = 0
    approvals: int = 0
    exchange_key: str | None = None
    issued_at: int = 0
    user: int | None = None
    is_removed: bool = False
    reported: list[str] = field(default_factory=list)


class AccountMachine(RuleBasedStateMachine):
    """Actions on accounts: an action is refused if the model says so, and then changes nothing."""

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.folder = TemporaryDirectory()
        self.clock = ManualClock(NOW)
        self.accounts: Accounts = self.run(
            self.stack.enter_async_context(
                open_accounts_service(Path(self.folder.name), pepper=PEPPER, clock=self.clock)
            )
        )
        self.books = Books(self.accounts.path)
        self.kept: dict[str, Model] = {}
        self.keys_reported: set[str] = set()

    @override
    def teardown(self) -> None:
        if hasattr(self, "stack"):
            if hasattr(self, "books"):
                self.books.close()
            self.run(self.stack.aclose())
            self.runner.close()
            self.folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def attempt(self, work: Coroutine[Any, Any, T], expected: type[Exception] | None) -> T | None:
        """Return the result of *work*; expect the error *expected*, if any, and no change by it."""
        before = self.books.dump()
        outcome = refusal = None
        try:
            outcome = self.run(work)
        except REFUSALS as error:
            refusal = error
        assert type(refusal) is (expected or type(None)), refusal
        assert refusal is None or self.books.dump() == before
        return outcome

    # Actions of an applicant.

    @rule(email=emails, key=keys, motivation=st.sampled_from(["To trade.", "To watch."]))
    def apply(self, email: str, key: str | None, motivation: str) -> None:
        self.do_apply(email, key, motivation)

    def do_apply(self, email: str, key: str | None, motivation: str = "To trade.") -> None:
        form = parse_form(signup_body(email, motivation=motivation))
        model = self.kept.get(email)
        now = self.clock.now()
        if model is not None and model.state == WAITING and now - model.at >= LAPSE_MS:
            model = None
        if model is None:
            made = self.attempt(self.accounts.signup.apply(form, redelivery_key=key), None)
            assert made is not None
            link, code = self.accounts.link(email), self.accounts.code(email)
            self.kept[email] = Model(made, f"{key} {motivation}", now, link, code)
            return
        is_same = key is not None and model.key == f"{key} {motivation}"
        is_again = is_same and now - model.at < REDELIVERY_MS
        again = self.attempt(
            self.accounts.signup.apply(form, redelivery_key=key),
            None if is_again else DuplicateApplication,
        )
        assert again == (model.made if is_again else None)

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), is_right=st.booleans())
    def confirm_by_code(self, *, data: st.DataObject, is_right: bool) -> None:
        self.do_confirm(self.one(data), is_right=is_right)

    def do_confirm(self, model: Model, *, is_right: bool = True) -> None:
        code = model.code if is_right else model.code[::-1] + "0"
        is_late = self.clock.now() - model.at >= LAPSE_MS
        is_good = is_right and model.guesses < GUESSES_MAX and not is_late
        is_counted = not model.is_confirmed and not is_late
        work = self.accounts.signup.confirm_by_code(
            parse_form(signup_body(self.email_of(model))).email, model.made.secret, code
        )
        try:
            self.run(work)
        except InvalidFields:
            assert not model.is_confirmed
            assert not is_good
        else:
            assert model.is_confirmed or is_good
            self.note_confirmed(model)
        model.guesses += is_counted

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def confirm_by_link(self, data: st.DataObject) -> None:
        model = self.one(data)
        is_good = not model.is_link_used and self.clock.now() - model.at < LAPSE_MS
        assert (
            self.run(self.accounts.signup.find_address(model.link, Purpose.CONFIRM_APPLICATION))
            is not None
        ) == is_good
        assert self.run(self.accounts.signup.confirm_by_link(model.link)) == is_good
        if is_good:
            self.note_confirmed(model)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def disown(self, data: st.DataObject) -> None:
        model = self.one(data)
        is_good = (
            not model.is_link_used
            and model.state in {WAITING, PENDING}
            and self.clock.now() - model.at < LAPSE_MS
        )
        assert self.run(self.accounts.signup.disown(model.link)) == is_good
        if is_good:
            del self.kept[self.email_of(model)]

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), key=keys)
    def exchange(self, data: st.DataObject, key: str | None) -> None:
        self.do_exchange(self.one(data), key)

    def do_exchange(self, model: Model, key: str | None) -> None:
        expected, is_again = self.expected_of_exchange(model, key)
        issued = self.attempt(self._exchange(model, key), expected)
        if issued is None:
            return
        if is_again:
            assert model.reported[-1] == issued.api_key
            return
        assert issued.api_key not in self.keys_reported
        assert model.approvals >= 1  # nothing is issued without approval
        model.approvals -= 1
        model.state, model.exchange_key = ISSUED, key
        model.issued_at, model.user = self.clock.now(), issued.line.user_id
        model.reported.append(issued.api_key)
        self.keys_reported.add(issued.api_key)

    def expected_of_exchange(
        self, model: Model, key: str | None
    ) -> tuple[type[Exception] | None, bool]:
        if model.is_removed:
            return AccountNotFound, False
        if model.state == APPROVED:
            return None, False
        if model.state == ISSUED:
            is_recent = self.clock.now() - model.issued_at < REDELIVERY_MS
            is_again = key is not None and key == model.exchange_key and is_recent
            return (None if is_again else KeyAlreadyExists), is_again
        return NotApproved, False

    async def _exchange(self, model: Model, key: str | None) -> IssuedKey:
        email = parse_form(signup_body(self.email_of(model))).email
        exchanges = self.accounts.exchange
        assert await exchanges.recognise(email, model.made.secret[:-1]) is None
        applicant = await exchanges.recognise(email, model.made.secret)
        assert applicant is not None
        return await exchanges.exchange(applicant, model.made.secret, redelivery_key=key)

    # Actions of administrators.

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), unconfirmed=st.booleans())
    def approve(self, *, data: st.DataObject, unconfirmed: bool) -> None:
        self.do_approve(self.one(data), unconfirmed=unconfirmed)

    def do_approve(self, model: Model, *, unconfirmed: bool = False) -> None:
        allowed = {PENDING, WAITING} if unconfirmed else {PENDING}
        approved = self.attempt(
            self.accounts.review.approve(
                model.made.signup_id,
                scopes=frozenset({Scope.TRADE_WRITE}),
                note="",
                actor=COMMAND_LINE,
                unconfirmed=unconfirmed,
            ),
            None if model.state in allowed else NotPossible,
        )
        if approved is not None:
            model.state = APPROVED
            model.approvals += 1

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        model = self.one(data)
        rejected = self.attempt(
            self.accounts.review.reject(model.made.signup_id, note="", actor=COMMAND_LINE),
            None if model.state in {PENDING, WAITING} else NotPossible,
        )
        if rejected is not None:
            model.state = REJECTED

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        self.do_reset(self.one(data))

    def do_reset(self, model: Model) -> None:
        can_be = model.state == ISSUED and not model.is_removed
        done = self.attempt(
            self.accounts.review.reset(model.made.signup_id, actor=COMMAND_LINE),
            None if can_be else NotPossible,
        )
        if done is not None:
            model.state = APPROVED
            model.approvals += 1

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        model = self.one(data)
        number = model.made.signup_id
        self.attempt(self.accounts.review.forget(number, actor=COMMAND_LINE), None)
        self.attempt(self.accounts.review.forget(number, actor=COMMAND_LINE), NotPossible)
        del self.kept[self.email_of(model)]

    @precondition(lambda self: any(model.user for model in self.kept.values()))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from([each for each in self.kept.values() if each.user]))
        assert model.user is not None
        self.attempt(
            self.accounts.review.remove_user(UserId(model.user), actor=COMMAND_LINE),
            NotPossible if model.is_removed else None,
        )
        model.is_removed = True

    # The usual next actions, so that most runs reach the late states.

    @rule(email=emails, key=keys, steps=st.integers(1, 6))
    def go_on(self, email: str, key: str | None, steps: int) -> None:
        for _ in range(steps):
            model = self.kept.get(email)
            if model is None:
                self.do_apply(email, key)
            elif model.state == WAITING:
                self.do_confirm(model)
            elif model.state == PENDING:
                self.do_approve(model)
            elif model.state == APPROVED:
                self.do_exchange(model, key)
            elif model.state == ISSUED:
                self.do_reset(model)

    # Effects of time.

    @rule(minutes=st.sampled_from([1, 10, 36 * 60]))
    def wait(self, minutes: int) -> None:
        self.clock.advance(minutes * MINUTE_MS)

    @rule()
    def sweep(self) -> None:
        lapsed = [
            email
            for email, model in self.kept.items()
            if model.state == WAITING and self.clock.now() - model.at >= LAPSE_MS
        ]
        assert self.run(self.accounts.signup.forget_lapsed()) == len(lapsed)
        for email in lapsed:
            del self.kept[email]

    # Invariants.

    @invariant()
    def the_books_are_sound(self) -> None:
        if hasattr(self, "books"):
            assert self.books.contradictions() == []

    @invariant()
    def the_states_are_those_of_the_model(self) -> None:
        if not hasattr(self, "books"):
            return
        columns = "email, id, state, confirmed_at IS NOT NULL"
        found = self.books.rows(f"SELECT {columns} FROM application ORDER BY email")
        assert found == [
            (email, model.made.signup_id, model.state, int(model.is_confirmed))
            for email, model in sorted(self.kept.items())
        ]

    @invariant()
    def the_keys_in_force_are_the_last_ones_shown(self) -> None:
        if not hasattr(self, "books"):
            return
        in_force = self.books.rows("SELECT key_hash FROM api_key WHERE revoked_at IS NULL")
        assert {digest for (digest,) in in_force} == {
            hash_credential(model.reported[-1], pepper=PEPPER)
            for model in self.kept.values()
            if model.state == ISSUED and not model.is_removed
        }

    def one(self, data: st.DataObject) -> Model:
        return self.kept[data.draw(st.sampled_from(sorted(self.kept)))]

    def email_of(self, model: Model) -> str:
        return next(email for email, each in self.kept.items() if each is model)

    def note_confirmed(self, model: Model) -> None:
        model.is_confirmed = model.is_link_used = True
        if model.state == WAITING:
            model.state = PENDING


TestAccountMachine = pytest.mark.storm(AccountMachine.TestCase)
TestAccountMachine.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, print_blob=True
)
