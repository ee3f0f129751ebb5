"""An api that has lost the pepper of its credentials makes no new pepper."""

from pathlib import Path

import pytest

from mintscope.app.config.groups import Config
from mintscope.app.stores.folder import PEPPER_FILE
from mintscope.app.stores.stores import expect_own_stores, open_money
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import UnusablePepper


async def test_a_start_with_a_lost_pepper_is_refused_and_makes_no_new_pepper(
    tmp_path: Path,
) -> None:
    config = Config(data_dir=tmp_path)
    expect_own_stores(config, uses_pepper=True)
    async with open_money(config, SystemClock()) as money:
        await money.ledger.expect_writable()
    expect_own_stores(config, uses_pepper=True)

    (tmp_path / PEPPER_FILE).unlink()
    with pytest.raises(UnusablePepper, match=r"in credits\.pepper|restore it from your backup"):
        expect_own_stores(config, uses_pepper=True)
    assert not (tmp_path / PEPPER_FILE).exists()
    expect_own_stores(config)  # ingest does not use the pepper
