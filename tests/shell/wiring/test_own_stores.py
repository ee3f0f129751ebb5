"""An api that has lost the pepper of its credentials makes no new one."""

from pathlib import Path

import pytest

from mintscope.base.clock import SystemClock
from mintscope.base.errors import UnusablePepper
from mintscope.edges.storage.folder import PEPPER_FILE
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.identity import expect_own_stores
from mintscope.shell.wiring.stores import open_money


async def test_a_lost_pepper_is_refused_and_none_is_made(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    expect_own_stores(config, uses_pepper=True)
    async with open_money(config, SystemClock()) as money:
        await money.ledger.expect_writable()
    expect_own_stores(config, uses_pepper=True)

    (tmp_path / PEPPER_FILE).unlink()
    with pytest.raises(UnusablePepper, match=r"in credits\.pepper|restore it from your backup"):
        expect_own_stores(config, uses_pepper=True)
    assert not (tmp_path / PEPPER_FILE).exists()
    expect_own_stores(config)  # ingest has no use for it
