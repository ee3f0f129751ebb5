"""The api's check fails if another process of `serve` has ended and is not started again."""

import pytest

from mintscope.app.running.tracing import Siblings
from mintscope.kit.errors import ServiceUnavailable


async def test_a_process_that_is_stopped_for_good_is_reported() -> None:
    siblings = Siblings(has_parent=True)
    (check,) = siblings.checks
    siblings.hear(b'{"ingest": {"restarts": 3}, "api": {}}\n')
    await check.probe()

    siblings.hear(b'{"ingest": {"restarts": 3, "is_stopped": true}, "api": {}}\n')

    with pytest.raises(ServiceUnavailable, match="ingest has ended and is not started again"):
        await check.probe()


def test_an_api_without_a_parent_has_no_check_of_siblings() -> None:
    assert Siblings(has_parent=False).checks == []
