"""The newest set of secrets whose time has come signs; signatures by some others are accepted."""

from hashlib import sha256

from mintscope.kit.credentials import CredentialHash, Root, hash_credential
from mintscope.kit.primitives import UnixMs, Wallet
from mintscope.payments.protocol.envelope import MessageHash
from mintscope.payments.reconciler import OVERLAP_MS, Secrets

PEPPER = sha256(b"pepper").digest()
FIRST, SECOND = Root(1_000, sha256(b"first").digest()), Root(10_000, sha256(b"second").digest())
SECRETS = Secrets.derive(PEPPER, [FIRST, SECOND])
OF_SECOND, OF_FIRST = SECRETS.newer
MESSAGE, PAYER = MessageHash(b"m" * 32), Wallet("p")


def test_each_secret_signs_from_its_start_time() -> None:
    at = [SECRETS.at(UnixMs(ms)) for ms in (0, 999_999, 1_000_000, 9_999_999, 10_000_000)]

    assert at == [SECRETS, SECRETS, OF_FIRST, OF_FIRST, OF_SECOND]


def test_replaced_secrets_are_valid_for_the_overlap_and_new_secrets_at_once() -> None:
    def in_force(ms: int) -> list[Secrets]:
        return list(SECRETS.in_force(UnixMs(ms)))

    assert in_force(0) == [SECRETS, OF_SECOND, OF_FIRST]
    assert in_force(1_000_000) == [OF_FIRST, OF_SECOND, SECRETS]
    assert in_force(1_000_000 + OVERLAP_MS - 1) == [OF_FIRST, OF_SECOND, SECRETS]
    assert in_force(1_000_000 + OVERLAP_MS) == [OF_FIRST, OF_SECOND]
    assert in_force(10_000_000) == [OF_SECOND, OF_FIRST]
    assert in_force(10_000_000 + OVERLAP_MS) == [OF_SECOND]


def test_the_secret_of_the_pepper_is_used_at_all_times_without_roots() -> None:
    alone = Secrets.derive(PEPPER)

    assert alone.in_force(UnixMs(0)) == (alone,)
    assert alone.at(UnixMs(5)) is alone


def test_tokens_of_every_secret_are_found_and_secrets_share_no_key() -> None:
    made = {
        name: {getattr(each, name) for each in SECRETS.all()}
        for name in ("quote", "redeem", "token", "rotation")
    }
    assert {name: len(keys) for name, keys in made.items()} == dict.fromkeys(made, 3)
    assert {each.pepper for each in SECRETS.all()} == {PEPPER}
    for each in SECRETS.all():
        token = each.credit_token(MESSAGE, "key")
        assert SECRETS.token_of(MESSAGE, "key", hash_credential(token, pepper=PEPPER)) == token
        assert SECRETS.holds("key", PAYER, each.key_hash("key", PAYER))
        assert not SECRETS.holds("another", PAYER, each.key_hash("key", PAYER))
    assert SECRETS.token_of(MESSAGE, "key", CredentialHash(b"x" * 32)) is None
