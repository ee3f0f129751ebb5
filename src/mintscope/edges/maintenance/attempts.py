"""The check that attempts succeed, by their counter: e-mails to the mail server, webhooks."""

from prometheus_client import Counter

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.time import HOUR_S


class Attempts:
    """Fails once *failures_max* attempts in a row have failed, until one succeeds.

    It also passes again after an hour without a further failure: no more attempts are made.

    counter   counts attempts by outcome, of which *good* and *bad* are read
    advice    added to the message
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        counter: Counter,
        clock: Clock,
        *,
        good: str,
        bad: str,
        failures_max: int,
        advice: str,
    ) -> None:
        self._good = counter.labels(good)
        self._bad = counter.labels(bad)
        self._clock = clock
        self._failures_max = failures_max
        self._advice = advice
        self._succeeded, self._failed = self._counts()
        self._in_a_row = 0
        self._failed_at_s = clock.monotonic_s()

    async def expect_success(self) -> None:
        """Raise ServiceUnavailable while no attempt succeeds."""
        succeeded, failed = self._counts()
        now_s = self._clock.monotonic_s()
        if succeeded != self._succeeded or now_s - self._failed_at_s >= HOUR_S:
            self._in_a_row = 0
        elif failed != self._failed:
            self._in_a_row += int(failed - self._failed)
        if failed != self._failed:
            self._failed_at_s = now_s
        self._succeeded = succeeded
        self._failed = failed
        if self._in_a_row >= self._failures_max:
            raise ServiceUnavailable(
                f"{self._in_a_row} attempts in a row have failed: {self._advice}"
            )

    def _counts(self) -> tuple[float, float]:
        return _value(self._good), _value(self._bad)


def _value(counter: Counter) -> float:
    return next(sample.value for metric in counter.collect() for sample in metric.samples)
