"""The api says when a process beside it is stopped for good."""

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


def test_without_a_parent_there_is_nothing_to_check() -> None:
    assert Siblings(has_parent=False).checks == []
