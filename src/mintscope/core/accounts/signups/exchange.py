"""Exchanging an application secret for the API key, once."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.credentials import ApiKey, CredentialHash
from mintscope.base.errors import AccountNotFound, InvalidCredentials, KeyAlreadyExists, NotApproved
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    KeptApplication,
    SignupId,
    is_sent_again,
    subject_of,
)
from mintscope.core.accounts.audit import APPLICANT, note
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.api_key import KeyLine, KeyStatus, NewKey, new_key
from mintscope.core.accounts.keys.scope import READ_SCOPES, in_order
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.store import AccountRows, AccountStore, find_application
from mintscope.core.accounts.user import NewUser, UserId, UserKind, find_person, username_of

KEY_NAME: Final = "agent signup"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key, shown once."""

    api_key: ApiKey
    line: KeyLine
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The key that an application is about to get.

    key_nonce  what it derives from, together with the secret
    redeem     hash of the redelivery key; None if none was sent
    username   of the agent account, if one has to be made
    """

    signup_id: SignupId
    key: NewKey
    key_nonce: bytes
    redeem: CredentialHash | None
    username: str
    at: UnixMs


@dataclass(eq=False, repr=False)
class Exchanges:
    """Hands out the key of an application; *entropy* returns random bytes."""

    store: AccountStore
    _: KW_ONLY
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]

    async def recognise(self, email: EmailAddress, secret: str) -> Application | None:
        """Return the application of *email* if *secret* is its own: `find_application`."""
        return await find_application(self.store, email, secret, self.secrets)

    async def exchange(
        self, application: Application, secret: str, *, redelivery_key: str | None
    ) -> IssuedKey:
        """Issue the one key of what `recognise` returned, and write to its e-mail address.

        One transaction, on condition of the state `approved`: of any number at once, in any
        number of processes, one gets the key, the others KeyAlreadyExists.  With the
        *redelivery_key* of an exchange in the last ten minutes the key is returned again.

        The key goes to the account of an earlier key; else to the person who has verified the
        same address, if the application has confirmed it, too; else to a new agent account.
        Raises    NotApproved, KeyAlreadyExists, AccountNotFound (it was removed; raised first),
                  InvalidCredentials (the application is gone), ServiceUnavailable
        """
        _expect_offerable(application, is_repeated=redelivery_key is not None)
        nonce = self.entropy(NONCE_BYTES)
        api_key = self.secrets.key_of(application.signup_id, nonce, secret)
        email = application.form.email
        offer = Offer(
            signup_id=application.signup_id,
            key=new_key(api_key, self.secrets, KEY_NAME, READ_SCOPES | application.scopes, None),
            key_nonce=nonce,
            redeem=self.secrets.redeem_hash(redelivery_key, email),
            username=username_of(email, self.entropy),
            at=self.clock.now(),
        )
        line, username, issued_nonce = await self.store.transact(lambda rows: _issue(rows, offer))
        issued = self.secrets.key_of(application.signup_id, issued_nonce, secret)
        return IssuedKey(issued, line, username)


def _expect_offerable(application: Application, *, is_repeated: bool) -> None:
    """Refuse what the application itself shows, so that waiting agents take no write lock."""
    if application.user_removed:
        raise AccountNotFound
    if application.state is ApplicationState.KEY_ISSUED and not is_repeated:
        raise KeyAlreadyExists
    if application.state not in {ApplicationState.APPROVED, ApplicationState.KEY_ISSUED}:
        raise NotApproved


def _issue(rows: AccountRows, offer: Offer) -> tuple[KeyLine, str, bytes]:
    """Return the key that the application has got, the name of its user, and the key's nonce."""
    kept = rows.applications.get(offer.signup_id)
    if kept is None:
        raise InvalidCredentials
    if kept.application.user_removed:
        raise AccountNotFound
    if kept.application.state is ApplicationState.APPROVED:
        return _hand_out(rows, kept, offer)
    if kept.application.state is not ApplicationState.KEY_ISSUED:
        raise NotApproved
    assert kept.owner is not None, "expected the user of an application in state key_issued"
    assert kept.key_nonce is not None, "expected the nonce of an application in state key_issued"
    line = rows.api_keys.of_application(offer.signup_id)[0]
    owner = rows.users.get(kept.owner)
    if owner is None or not _is_answer_to(kept, line, offer):
        raise KeyAlreadyExists
    return line, owner.user.username, kept.key_nonce


def _is_answer_to(kept: KeptApplication, line: KeyLine, again: Offer) -> bool:
    issued_at = kept.application.issued_at
    return (
        issued_at is not None
        and is_sent_again(kept.exchange_redeem, again.redeem, after_ms=again.at - issued_at)
        and line.status(again.at) is KeyStatus.ACTIVE
    )


def _hand_out(rows: AccountRows, kept: KeptApplication, offer: Offer) -> tuple[KeyLine, str, bytes]:
    owner_id = kept.owner or _find_owner(rows, kept.application) or _add_agent(rows, kept, offer)
    rows.applications.update(
        offer.signup_id,
        state=ApplicationState.KEY_ISSUED,
        issued_at=offer.at,
        key_nonce=offer.key_nonce,
        exchange_redeem=offer.redeem,
        user=owner_id,
    )
    line = rows.api_keys.insert(owner_id, offer.key, offer.at, signup_id=offer.signup_id)
    facts = {"hint": line.hint, "scopes": ", ".join(in_order(line.scopes))}
    rows.emails.insert(EmailKind.NEW_KEY, kept.application.form.email, facts, None, offer.at)
    _note(rows, offer, "issued", f"key:{line.key_id}")
    owner = rows.users.get(owner_id)
    assert owner is not None, "an application whose user was removed is refused before"
    return line, owner.user.username, offer.key_nonce


def _find_owner(rows: AccountRows, application: Application) -> UserId | None:
    """Return the person of the application, if both have proven to read the address.

    Else a stranger who applies with an address would get a key that acts for its owner, or one who
    signs up with it would get the agent's key.
    """
    person = find_person(rows.users, application.form.email)
    if person is None or None in {person.user.verified_at, application.confirmed_at}:
        return None
    return person.user.user_id


def _add_agent(rows: AccountRows, kept: KeptApplication, offer: Offer) -> UserId:
    agent = NewUser(
        kind=UserKind.AGENT,
        username=offer.username,
        email=kept.application.form.email,
        verified_at=kept.application.confirmed_at,
        created_at=offer.at,
    )
    user_id = rows.users.insert(agent)
    _note(rows, offer, "created", f"user:{user_id}")
    return user_id


def _note(rows: AccountRows, offer: Offer, action: str, subject: str) -> None:
    note(rows.events, offer.at, APPLICANT, action, subject, because=subject_of(offer.signup_id))
