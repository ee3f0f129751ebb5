"""The times at which an e-mail that was not sent is tried again."""

from hypothesis import given
from hypothesis import strategies as st

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import Draft, EmailId, EmailKind
from mintscope.accounts.mail.outbox import retry_at
from mintscope.kit.primitives import UnixMs

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
WRITTEN_AT = UnixMs(1_700_000_000_000)


@given(attempts=st.integers(0, 10_000), age_ms=st.integers(0, 100 * HOUR_MS))
def test_pauses_grow_to_six_hours_and_end_after_three_days(attempts: int, age_ms: int) -> None:
    draft = Draft(
        email_id=EmailId(1),
        kind=EmailKind.NEW_KEY,
        recipient=EmailAddress("alice@example.org"),
        written_at=WRITTEN_AT,
        attempts=attempts,
    )
    now = UnixMs(WRITTEN_AT + age_ms)

    again_at = retry_at(draft, now)

    if age_ms >= 72 * HOUR_MS:
        assert again_at is None
    else:
        assert again_at is not None
        wanted = min(MINUTE_MS * 2.0 ** min(attempts, 100), 6.0 * HOUR_MS)
        assert again_at == min(now + wanted, WRITTEN_AT + 72 * HOUR_MS)
        assert again_at > now
