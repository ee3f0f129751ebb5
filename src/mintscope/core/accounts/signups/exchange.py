"""Exchanging an application secret for the API key, once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.base.clock import Clock
from mintscope.base.credentials import ApiKey, CredentialHash, hint
from mintscope.base.errors import AccountNotFound, KeyAlreadyExists, NotApproved
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    KeptApplication,
    SignupId,
)
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.api_key import KeyLine, KeyStatus, NewKey
from mintscope.core.accounts.keys.scope import READ_SCOPES
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.signups.recognition import recognise
from mintscope.core.accounts.signups.redelivery import is_sent_again
from mintscope.core.accounts.user import username_of

KEY_NAME: Final = "agent signup"
SUFFIX_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Applicant:
    """An application, asked for by somebody who knows its secret: `recognise` makes them."""

    application: Application


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """The key that an application has got; fields as in Offer."""

    line: KeyLine
    username: str
    key_nonce: bytes
    redeem: CredentialHash | None
    at: UnixMs

    def is_answer_to(self, again: Offer) -> bool:
        """Say whether *again* is the request this was issued for, sent once more."""
        return (
            is_sent_again(self.redeem, again.redeem, after_ms=again.at - self.at)
            and self.line.status(again.at) is KeyStatus.ACTIVE
        )


class ExchangeStore(Protocol):
    """Raises ServiceUnavailable from every verb."""

    async def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of *email*: one query."""
        ...

    async def issue(self, offer: Offer) -> Issue:
        """Issue the key offered if the application is approved; return what it has got, ever.

        Account, key, letter and audit rows are one transaction with the change of state.  The
        account is that of an earlier key; else that of the person who verified the mailbox, if
        the application has confirmed it, too; else an agent's, made for it.
        Raises    NotApproved in another state, AccountNotFound once the account was removed,
                  InvalidCredentials when there is no application any more
        """
        ...


class Exchanges:
    """Hands out the key of an application.

    entropy   returns so many bytes of a cryptographic generator
    """

    def __init__(
        self,
        store: ExchangeStore,
        *,
        secrets: AccountSecrets,
        clock: Clock,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._entropy = entropy

    async def recognise(self, email: EmailAddress, secret: str) -> Applicant | None:
        """Return the application of *email* if *secret* is its own; None: no such thing.

        One hash and one query, whatever the answer: unknown address, wrong secret, malformed
        secret, any state.
        """
        digest = self._secrets.hash(secret)
        application = recognise(await self._store.find(email), digest)
        return None if application is None else Applicant(application)

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
        application = applicant.application
        _expect_offerable(application, is_repeated=redelivery_key is not None)
        nonce = self._entropy(NONCE_BYTES)
        api_key = self._secrets.key_of(application.signup_id, nonce, secret)
        email = application.form.email
        offer = Offer(
            signup_id=application.signup_id,
            key=NewKey(
                key_hash=self._secrets.hash(api_key),
                hint=f"...{hint(api_key)}",
                name=KEY_NAME,
                scopes=READ_SCOPES | application.scopes,
                expires_at=None,
            ),
            key_nonce=nonce,
            redeem=self._secrets.redeem_hash(redelivery_key, email),
            username=username_of(email, self._entropy(SUFFIX_BYTES).hex()),
            at=self._clock.now(),
        )
        issue = await self._store.issue(offer)
        if issue.key_nonce != nonce and not issue.is_answer_to(offer):
            raise KeyAlreadyExists
        told = self._secrets.key_of(application.signup_id, issue.key_nonce, secret)
        return IssuedKey(told, issue.line, issue.username)


def _expect_offerable(application: Application, *, is_repeated: bool) -> None:
    """Refuse what needs no look at the store, so that waiting agents take no write lock."""
    if application.user_removed:
        raise AccountNotFound
    if application.state is ApplicationState.KEY_ISSUED and not is_repeated:
        raise KeyAlreadyExists
    if application.state not in {ApplicationState.APPROVED, ApplicationState.KEY_ISSUED}:
        raise NotApproved
