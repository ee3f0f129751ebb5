"""The rules for passwords, and the limits of guesses.

Strangers cannot lock the owner out, because wrong guesses are counted by client address.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from string import digits, punctuation
from typing import Final, Protocol

from mintscope.accounts.email_address import EmailAddress
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import SITE_SHARES, Limit, Limiter, LimitKey, Limits, site_key, take_all
from mintscope.kit.time import HOUR_S

LENGTH_MIN: Final = 10
LENGTH_MAX: Final = 200
QUARTER_S: Final = 900
COMMONEST_COUNT: Final = 10_000
# Common words and sequences of keys that are not among the most common passwords of zxcvbn, words
# of this service, and "": the core and the stem of a password of only digits and punctuation.
BESIDE: Final = frozenset({
    "", "abc", "abcd", "abcde", "abcdef", "administrator", "alexander", "andrew", "anthony", "asd",
    "ashley", "basketball", "bitcoin", "california", "charlotte", "chocolate", "christopher",
    "crypto", "daniel", "elizabeth", "ethereum", "george", "happy", "jackson", "jennifer",
    "jessica", "joshua", "login", "matthew", "michael", "michelle", "mintscope", "nicholas",
    "nicole", "nothing", "patrick", "qaz", "qwe", "qwer", "robert", "solana", "taylor", "thomas",
    "user", "victoria", "wallet", "william", "zaq", "zaqwsxzaq", "zxc",
})  # fmt: skip
NO_LETTERS: Final = digits + punctuation + " "
WITHOUT: Final = str.maketrans("", "", NO_LETTERS)
DISGUISES: Final = str.maketrans("@$0", "aso")  # characters that people type in place of others


class WrongPassword(Exception):
    """The address or the password is wrong; the error does not say which."""


class WeakPassword(ValueError):
    """The text is not an acceptable password; the message is safe to show to the user."""


class Hasher(Protocol):
    """Hashes passwords; a hash takes long on purpose."""

    async def hash(self, password: str) -> str:
        """Return the hash of *password*, for storage."""

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether *stored* is a hash of *password*.

        If *stored* is None, return False after the time that a comparison takes.
        """


def expect_password(text: str, *, email: str) -> str:
    """Return *text* if it is a valid password.  Raises WeakPassword."""
    if not LENGTH_MIN <= len(text) <= LENGTH_MAX:
        raise WeakPassword(
            f"expected {LENGTH_MIN} to {LENGTH_MAX} characters; there were {len(text)}"
        )
    is_own = text.lower() in {email, email.partition("@")[0]}
    if is_own or len(set(text)) <= 3 or _is_common(text):  # noqa: PLR2004
        raise WeakPassword("expected a password that is harder to guess")
    return text


@cache
def commonest_passwords() -> frozenset[str]:
    """Return the 10,000 most common passwords of zxcvbn, and the texts in BESIDE.

    The first call takes about 80 ms, so the api calls this in a thread at startup.  Only the lists
    of zxcvbn are read: the imported package would keep 11 MB of ranked lists in memory.
    """
    package = find_spec("zxcvbn")
    assert package is not None
    assert package.origin is not None
    module = run_path(str(Path(package.origin).with_name("frequency_lists.py")))
    return BESIDE.union(module["FREQUENCY_LISTS"]["passwords"][:COMMONEST_COUNT])


def _is_common(text: str) -> bool:
    """Return whether *text* is a common password, possibly repeated or with digits or signs added.

    Examples are password12, Qwerty12345!, 1234567890, 1q2w3e4r5t, qwe123qwe123.  Every text of only
    digits, punctuation and spaces counts as common.
    """
    common = commonest_passwords()
    plain = text.lower()
    # Stripped before disguises are undone: at an end, a 0 or $ is an addition, not a disguise.
    core = plain.strip(NO_LETTERS).translate(DISGUISES)
    stem = plain.translate(WITHOUT)
    return any(
        each in common or (each == 2 * (word := each[: len(each) // 2]) and word in common)
        for each in (plain, core, stem)
    )


class TooManyAttempts(Exception):
    """Too many wrong guesses or sign-ups; retry after *retry_after_s* seconds.

    A guess is a password, code or passkey.
    """

    def __init__(self, retry_after_s: int) -> None:
        seconds = "second" if retry_after_s == 1 else "seconds"
        super().__init__(f"Too many attempts: wait {retry_after_s} {seconds}.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """The limits of sign-ins and sign-ups; an IPv6 /48 may make four times as many attempts.

    one      the most wrong passwords for one e-mail address from one client address, in 15 minutes
    all      the most wrong passwords and passkeys from one client address, in 15 minutes
    signups  the most attempts to create an account, or to change the address of one, from one
             client address in an hour
    """

    one: int = 10
    all: int = 50
    signups: int = 20


@asynccontextmanager
async def guess(*windows: tuple[Limiter, LimitKey]) -> AsyncIterator[None]:
    """Count a guess in *windows* while the block checks it.  Raises TooManyAttempts.

    The guess is counted before the check, so that parallel guesses do not exceed the limits.  The
    count is undone if the block raises no error, because the guess was right, and if it raises
    ServiceUnavailable, because the guess was not checked.  Otherwise the guess stays counted.
    """
    denied = await take_all(windows)
    if denied is not None:
        raise TooManyAttempts(denied.retry_after_s)
    try:
        yield
    except ServiceUnavailable:
        await _give_back(windows)
        raise
    await _give_back(windows)


async def _give_back(windows: Sequence[tuple[Limiter, LimitKey]]) -> None:
    for window, key in windows:
        await window.give_back(key)


class LoginLimit:
    """Limits guesses of passwords and passkeys, and sign-ups; raises TooManyAttempts."""

    def __init__(self, admitted: LoginLimits, limits: Limits) -> None:
        def window(name: str, count: int, window_s: int) -> Limiter:
            return limits.limiter(Limit(name=name, count=count, window_s=window_s))

        self._one = window("guesses", admitted.one, QUARTER_S)
        self._one_of_site = window("guesses of a site", SITE_SHARES * admitted.one, QUARTER_S)
        self._all = window("guesses of a client", admitted.all, QUARTER_S)
        self._all_of_site = window("all guesses of a site", SITE_SHARES * admitted.all, QUARTER_S)
        self._signups = window("accounts of a client", admitted.signups, HOUR_S)
        self._site = window("accounts of a site", SITE_SHARES * admitted.signups, HOUR_S)

    def password(self, email: EmailAddress, client: str) -> AbstractAsyncContextManager[None]:
        """Count a guess of the password of *email* while the block checks it.

        The count is undone if the block raises no error, because the password was right.

        client   the client's address; for a proof in a session, the name of the session
        Raises   TooManyAttempts
        """
        site = site_key(client)
        return guess(
            (self._all_of_site, site),
            (self._all, client),
            (self._one_of_site, f"{site} {email}"),
            (self._one, f"{client} {email}"),
        )

    def passkey(self, client: str) -> AbstractAsyncContextManager[None]:
        """Count the use of a passkey by *client* while the block checks it.

        The count is undone if the block raises no error, because the passkey was right.
        Raises TooManyAttempts.
        """
        return guess((self._all_of_site, site_key(client)), (self._all, client))

    async def sign_up(self, client: str) -> None:
        """Count an attempt by *client* to create an account, or to change the address of one.

        Raises TooManyAttempts.
        """
        denied = await take_all([(self._site, site_key(client)), (self._signups, client)])
        if denied is not None:
            raise TooManyAttempts(denied.retry_after_s)


class EmailTaken(Exception):
    """A person has the address, or an undo link can still give the address back to a person."""
