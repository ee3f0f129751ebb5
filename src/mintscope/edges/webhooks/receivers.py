"""How much is sent to a receiver, whichever accounts ask for it.

host      of all rules together so many attempts a minute; the same of each address it leads to, so
          that many names of one machine are no way around it
account   half as many, to all hosts together, so that none takes all of a host that others use
silence   a host that did not answer three times in a row rests, up to a minute at a time
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from mintscope.base.clock import Clock
from mintscope.base.limits import Denied, Limit, Limits, take_all
from mintscope.base.time import MINUTE_S
from mintscope.core.accounts.user import UserId

PER_MINUTE: Final = 60
SILENT_MAX: Final = 3
REST_S_MIN: Final = 10
REST_S_MAX: Final = 60
SILENT_HOSTS_MAX: Final = 10_000


class _Silence(NamedTuple):
    failures: int
    until_s: float


class Receivers:
    """Admits attempts to send webhooks.

    per_minute   to one host, or one address, of all accounts together
    """

    def __init__(self, limits: Limits, clock: Clock, *, per_minute: int = PER_MINUTE) -> None:
        of_account = max(1, per_minute // 2)
        self._hosts = limits.limiter(
            Limit(name="webhooks to a host", count=per_minute, window_s=MINUTE_S)
        )
        self._addresses = limits.limiter(
            Limit(name="webhooks to an address", count=per_minute, window_s=MINUTE_S)
        )
        self._accounts = limits.limiter(
            Limit(name="webhooks of an account", count=of_account, window_s=MINUTE_S)
        )
        self._clock = clock
        self._silent: OrderedDict[str, _Silence] = OrderedDict()

    async def admit(self, host: str, user_id: UserId) -> int | None:
        """Count an attempt; None: it may be made, else in so many seconds."""
        silence = self._silent.get(host)
        now_s = self._clock.monotonic_s()
        if silence is not None and silence.failures < SILENT_MAX:
            silence = None
        if silence is not None and now_s < silence.until_s:
            return max(1, round(silence.until_s - now_s))
        verdict = await take_all([(self._hosts, host), (self._accounts, user_id)])
        if isinstance(verdict, Denied):
            return verdict.retry_after_s
        if silence is not None:  # one attempt finds out; the others wait for it
            self._silent[host] = _Silence(silence.failures, now_s + REST_S_MAX)
        return None

    async def admit_address(self, address: str) -> int | None:
        """Count an attempt to reach *address*; None: it may be made, else in so many seconds."""
        verdict = await self._addresses.take(address)
        return verdict.retry_after_s if isinstance(verdict, Denied) else None

    def note(self, host: str, *, is_silent: bool) -> None:
        """Note whether *host* answered."""
        before = self._silent.pop(host, None)
        if not is_silent:
            return
        failures = 1 if before is None else before.failures + 1
        rest_s = min(REST_S_MIN << min(max(0, failures - SILENT_MAX), 8), REST_S_MAX)
        self._silent[host] = _Silence(failures, self._clock.monotonic_s() + rest_s)
        while len(self._silent) > SILENT_HOSTS_MAX:
            self._silent.popitem(last=False)
