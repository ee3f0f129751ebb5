"""Pages of an account that has reached its limit of keys or of changes."""

from mintscope.accounts.keys.key import KEYS_PER_USER_MAX
from mintscope.accounts.keys.scope import Scope
from mintscope.kit.http.rate_limit import WRITES
from support.scenes.people.web_person import Person, words
from support.scenes.website import Website


async def test_a_key_is_rotated_only_without_overlap_at_the_limit_of_active_keys(
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
    assert "You have 100 active keys: end the old one now." in words(refused)
    assert rotated.status_code == 200
    assert "svc_live_" in words(rotated)


async def test_keys_and_sessions_can_be_ended_beyond_the_daily_limit_of_changes(
    site: Website, alice: Person
) -> None:
    """A thief may have made the changes: the owner must still revoke keys and end sessions."""
    assert alice.cookie is not None
    session = await site.accounts.people.session(alice.cookie)
    assert session is not None
    for _ in range(2):
        await site.accounts.keys.create(
            session, name="bot", scopes=frozenset({Scope.TRADE_READ}), lifetime_ms=None
        )
    for _ in range(WRITES.count):
        await site.accounts.writes.spend(session.user.user_id, "key")

    refused = await alice.send("/settings/api-keys/1/rename", {"name": "other"})
    revoked = await alice.send("/settings/api-keys/1/revoke")
    ended = await alice.send("/settings/sessions/end-others")

    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 3_600
    assert revoked.status_code in {200, 303}
    assert ended.status_code == 303
    kept = site.rows("SELECT name, revoked_at IS NULL FROM api_key ORDER BY id")
    assert kept == [("bot", 0), ("bot", 1)]
    assert (await alice.send("/sign-out")).status_code == 303
