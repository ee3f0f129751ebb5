"""The secret that signs, among several, and the secrets whose signatures count."""

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


def test_each_signs_from_its_time_on() -> None:
    at = [SECRETS.at(UnixMs(ms)) for ms in (0, 999_999, 1_000_000, 9_999_999, 10_000_000)]

    assert at == [SECRETS, SECRETS, OF_FIRST, OF_FIRST, OF_SECOND]


def test_what_was_replaced_counts_for_a_while_and_what_comes_counts_already() -> None:
    def in_force(ms: int) -> list[Secrets]:
        return list(SECRETS.in_force(UnixMs(ms)))

    assert in_force(0) == [SECRETS, OF_SECOND, OF_FIRST]
    assert in_force(1_000_000) == [OF_FIRST, OF_SECOND, SECRETS]
    assert in_force(1_000_000 + OVERLAP_MS - 1) == [OF_FIRST, OF_SECOND, SECRETS]
    assert in_force(1_000_000 + OVERLAP_MS) == [OF_FIRST, OF_SECOND]
    assert in_force(10_000_000) == [OF_SECOND, OF_FIRST]
    assert in_force(10_000_000 + OVERLAP_MS) == [OF_SECOND]


def test_without_roots_all_is_as_before() -> None:
    alone = Secrets.derive(PEPPER)

    assert alone.in_force(UnixMs(0)) == (alone,)
    assert alone.at(UnixMs(5)) is alone


def test_receipts_of_every_secret_are_found_and_share_no_key() -> None:
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
