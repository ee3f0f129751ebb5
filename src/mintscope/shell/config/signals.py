"""The configuration of signals."""

from pydantic import Field

from mintscope.base.time import HOUR_S
from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class SignalsConfig(Section):
    """Alert rules of accounts: /v1/signals."""

    enabled: bool = True
    """Look at alert rules and send their webhooks. Without it they are kept, and fire nothing."""
    per_account_max: values.Count = 20
    """Alert rules of an account."""
    of_all_max: int = Field(default=10_000, ge=1, le=100_000)
    """Alert rules of all accounts that are looked at; inactive ones do not count."""
    mints_max: int = Field(default=1_000, ge=1, le=100_000)
    """Tokens that all alert rules together look at, about 15 kB of memory each."""
    emails_per_day_max: values.Count = 50
    """E-mails about alert rules to one account in 24 hours."""
    emails_per_alert_max: values.Count = 20
    """E-mails about one alert rule in 24 hours."""
    email_pause_s: int = Field(default=300, ge=0, le=24 * HOUR_S)
    """Pause between two e-mails of one alert rule; what fires meanwhile goes into the next."""
    firings_per_hour_max: values.Count = 30
    """Firings of an alert rule in an hour, which begins with the first; then it rests."""
    firings_kept_max: values.Count = 1_000
    """Firings that are kept of an alert rule, the newest; older ones go within an hour."""
    poll_interval_ms: int = Field(default=250, ge=10, le=60_000)
    """Pause between two looks at the newest blocks."""
    takeover_s: float = Field(default=10.0, ge=1, le=300, allow_inf_nan=False)
    """When the process that looks at alert rules died, another one begins after this long."""
    webhook_timeout_s: float = Field(default=10.0, gt=0, le=50, allow_inf_nan=False)
    """Timeout of one webhook; 5 seconds later another process may send it."""
    webhook_retry_s: int = Field(default=24 * HOUR_S, ge=60, le=30 * 24 * HOUR_S)
    """How long a webhook is tried again before it is disabled."""
    webhooks_waiting_max: int = Field(default=1_000, ge=1, le=100_000)
    """Webhooks of one alert rule that wait; beyond it the oldest but the first are dropped."""
    webhooks_per_minute_max: values.Count = 60
    """Webhooks to one host, or to one address, in any 60 seconds, of all accounts; an account sends
    half as many, to all hosts together."""
    webhook_loopback: bool = False
    """Send webhooks to addresses of this machine, too, in plain http: for demos and tests."""
