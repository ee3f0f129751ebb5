"""How codes are accepted: of an app once, a recovery code once, and few guesses in all."""

import hmac
from typing import Final

from mintscope.base.limits import Limit, Limits, take_all
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_S, MINUTE_S
from mintscope.core.accounts.factors.recovery import plain
from mintscope.core.accounts.factors.rows import App
from mintscope.core.accounts.factors.totp import DIGITS, matching_step
from mintscope.core.accounts.people.password import TooManyAttempts
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import UserId

# Three of a million codes are good at a time: who stole the password gets in once in 6,000 days.
GUESSES: Final = (
    Limit(name="codes in 15 minutes", count=10, window_s=15 * MINUTE_S),
    Limit(name="codes in a day", count=50, window_s=DAY_S),
)


class WrongCode(Exception):
    """The code is wrong, too old, or was used before; the error does not say which."""


class CodeLimit:
    """Counts guesses of codes by user, before they are checked."""

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in GUESSES]

    async def begin(self, user_id: UserId) -> None:
        """Count a guess.  Raises TooManyAttempts."""
        denied = await take_all([(window, user_id) for window in self._windows])
        if denied is not None:
            raise TooManyAttempts(denied.retry_after_s)

    async def forgive(self, user_id: UserId) -> None:
        """Count a guess less: it was right, or was not checked."""
        for window in self._windows:
            await window.give_back(user_id)


def accept_app_code(
    rows: AccountRows, app: App, code: str, secrets: AccountSecrets, at: UnixMs
) -> bool:
    """Say whether *code* is one of *app*; it is good once."""
    secret = secrets.app_secret(app.user_id, app.nonce)
    step = matching_step(secret, plain(code), at, after=app.last_step)
    if step is None:
        return False
    rows.apps.update(app.app_id, last_step=step)
    return True


def accept_code(
    rows: AccountRows, user_id: UserId, code: str, secrets: AccountSecrets, at: UnixMs
) -> int | None:
    """Accept a code of the app, or a recovery code, which is used up.

    Return how many recovery codes are left where one was used, -1 for one of the app; None: the
    code is wrong.
    """
    typed = plain(code)
    if len(typed) == DIGITS and typed.isascii() and typed.isdigit():
        app = rows.apps.of_user(user_id)
        is_right = (
            app is not None
            and app.confirmed_at is not None
            and accept_app_code(rows, app, typed, secrets, at)
        )
        return -1 if is_right else None
    digest = secrets.recovery_hash(user_id, typed)
    unused = rows.recovery_codes.unused(user_id)
    found = [each for each in unused if hmac.compare_digest(each.code_hash, digest)]
    if not found:
        return None
    rows.recovery_codes.use(found[0].code_id)
    return len(unused) - 1
