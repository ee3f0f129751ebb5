"""Metrics of the outcomes of payments."""

from prometheus_client import REGISTRY

from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi


def counted(outcome: str, reason: str = "") -> float:
    labels = {"outcome": outcome, "reason": reason}
    return REGISTRY.get_sample_value("mintscope_payments_total", labels) or 0.0


async def test_every_outcome_of_a_payment_is_counted(shop: SellingApi, world: World) -> None:
    kinds = [
        ("settled", ""),
        ("redelivered", ""),
        ("already_used", "payment"),
        ("refused", "amount_mismatch"),
        ("failed", "transaction_failed"),
        ("unavailable", "chain"),
        ("invalid", ""),
    ]
    before = [counted(*kind) for kind in kinds]
    sold = REGISTRY.get_sample_value("mintscope_credits_sold_total") or 0.0
    payment = await shop.paid("POST", PURCHASE)
    for key in (KEY, KEY, None):
        await shop.send("POST", PURCHASE, payment, key=key)
    await shop.buy(amount=1)
    world.go_wrong(landing={"kind": "failed"})
    await shop.buy(key=None)
    world.go_wrong(calls={"*": {"kind": "http", "status": 503}})
    await shop.buy(key=None)
    await shop.send("POST", PURCHASE, "nonsense")

    after = [counted(*kind) for kind in kinds]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1.0] * len(kinds)
    assert REGISTRY.get_sample_value("mintscope_credits_sold_total") == sold + 10, "once"
