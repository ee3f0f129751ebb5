"""The age of the newest backup is a check of the api, unless it is switched off."""

import pytest

from mintscope.app.config.config import WatchConfig
from mintscope.app.config.groups import Config
from mintscope.app.maintenance import backup_checks
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import BACKUP_AGE_S


async def test_an_old_backup_is_reported() -> None:
    (check,) = backup_checks(Config())
    BACKUP_AGE_S.measure(lambda: 26 * 3_600.0)
    await check.probe()
    BACKUP_AGE_S.measure(lambda: 27 * 3_600.0)
    with pytest.raises(ServiceUnavailable, match="the newest backup is 27 h old, more than 26"):
        await check.probe()
    assert not check.is_vital
    assert backup_checks(Config(watch=WatchConfig(backup_age_max_hours=0))) == []
