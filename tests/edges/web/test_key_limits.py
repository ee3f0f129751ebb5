"""The page of someone who has as many keys as anybody may have."""

from mintscope.core.accounts.keys.api_key import KEYS_PER_USER_MAX
from mintscope.core.accounts.keys.scope import Scope
from support.scenes.people.web_person import Person, words
from support.scenes.website import Website


async def test_a_key_that_is_one_too_many_is_rotated_without_overlap(
    site: Website, alice: Person
) -> None:
    assert alice.cookie is not None
    session = await site.accounts.people.session(alice.cookie)
    assert session is not None
    for _ in range(KEYS_PER_USER_MAX):
        await site.accounts.keys.create(
            session, name="bot", scopes=frozenset({Scope.TRADE_READ}), lifetime_ms=None
        )

    refused = await alice.send("/settings/api-keys/1/rotate", {"overlap": "24h"})
    rotated = await alice.send("/settings/api-keys/1/rotate", {"overlap": "0"})

    assert refused.status_code == 422
    assert "You have 100 active keys, so both cannot work at once" in words(refused)
    assert rotated.status_code == 200
    assert "svc_live_" in words(rotated)
