"""Answers of the RPC methods; no parameter makes a method crash."""

from base64 import b64encode
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from based58 import b58encode
from hypothesis import given, settings
from hypothesis import strategies as st
from paying import PRICE, PayingChain
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import CompiledInstruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.token import ID as TOKEN
from solders.transaction import VersionedTransaction

from mintscope_devchain.methods.params import RpcError
from mintscope_devchain.svm.vm import PENDING_MAX
from support.scenes.json_transactions import decode_transaction

ADDRESS = str(Keypair.from_seed(b"x" * 32).pubkey())
NEWEST = {"commitment": "processed"}
TABLES = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")


def simulate(chain: PayingChain, transaction: VersionedTransaction, **config: object) -> Any:
    text = b64encode(bytes(transaction)).decode()
    return chain.call("simulateTransaction", text, {"encoding": "base64", **config})["value"]


def test_a_simulation_returns_the_new_accounts_without_changing_the_chain(
    chain: PayingChain,
) -> None:
    genesis = chain.vm.genesis
    source = str(genesis.tokens_of(chain.buyer.pubkey()))
    addresses = [source, str(genesis.treasury_tokens), str(genesis.mint), ADDRESS]
    value = simulate(
        chain,
        chain.payment(),
        sigVerify=True,
        accounts={"addresses": addresses, "encoding": "jsonParsed"},
    )
    amounts = [
        account["data"]["parsed"]["info"]["tokenAmount"]["amount"]
        for account in value["accounts"][:2]
    ]

    assert value["err"] is None
    assert amounts == [str(10**9 - PRICE), str(PRICE)]
    assert value["accounts"][2]["data"]["parsed"]["type"] == "mint"
    assert value["accounts"][3] is None
    assert value["unitsConsumed"] > 0
    assert value["logs"][-1].endswith("success")
    assert chain.received() == 0


def test_a_failed_simulation_returns_its_error(chain: PayingChain) -> None:
    treasury = str(chain.vm.genesis.treasury_tokens)
    accounts = {"addresses": [treasury], "encoding": "base64"}
    poor = simulate(chain, chain.payment(amount=10**12), accounts=accounts)  # too much
    payment = chain.payment()
    chain.slots(200)
    old = simulate(chain, payment)
    replaced = simulate(chain, payment, replaceRecentBlockhash=True)

    assert poor["err"] == {"InstructionError": [2, {"Custom": 1}]}
    assert poor["accounts"] == [None]
    assert old["err"] == "BlockhashNotFound"
    assert replaced["err"] is None
    assert replaced["replacementBlockhash"]["lastValidBlockHeight"] > 150


@pytest.mark.parametrize("signature", [Signature.default(), Keypair().sign_message(b"")])
def test_a_simulation_needs_a_signature_only_with_sig_verify(
    chain: PayingChain, signature: Signature
) -> None:
    payment = chain.payment()
    unsigned = VersionedTransaction.populate(payment.message, [signature, payment.signatures[1]])
    value = simulate(chain, unsigned, sigVerify=False)
    with pytest.raises(RpcError, match="signature verification") as refused:
        simulate(chain, unsigned, sigVerify=True)

    assert value == simulate(chain, unsigned)
    assert value["err"] is None
    assert value["unitsConsumed"] > 0
    assert refused.value.code == -32003


def test_a_simulation_recognises_a_landed_transaction_without_its_signature(
    chain: PayingChain,
) -> None:
    payment = chain.payment()
    chain.call("sendTransaction", b64encode(bytes(payment)).decode(), {"encoding": "base64"})
    chain.slots(3)
    signatures = [Signature.default(), payment.signatures[1]]
    unsigned = VersionedTransaction.populate(payment.message, signatures)

    assert chain.received() == PRICE
    assert simulate(chain, unsigned)["err"] == "AlreadyProcessed"


def test_a_simulation_refuses_an_account_named_twice(chain: PayingChain) -> None:
    sound = chain.payment().message
    assert isinstance(sound, MessageV0)
    keys = [*sound.account_keys[:-1], sound.account_keys[0]]
    twice = MessageV0(sound.header, keys, sound.recent_blockhash, sound.instructions, [])
    transaction = VersionedTransaction.populate(twice, chain.payment().signatures)

    assert simulate(chain, transaction)["err"] == "AccountLoadedTwice"


def test_an_inconsistent_transaction_is_refused(chain: PayingChain) -> None:
    payment = chain.payment()
    unsigned = VersionedTransaction.populate(payment.message, [])
    with pytest.raises(RpcError, match="invalid transaction"):
        chain.send(unsigned)
    with pytest.raises(RpcError, match="bytes remain"):
        chain.call(
            "sendTransaction",
            b64encode(bytes(payment) + b"\0").decode(),
            {"encoding": "base64"},
        )
    with pytest.raises(RpcError, match="too large: 1233 bytes"):
        chain.call("sendTransaction", b64encode(bytes(1_233)).decode(), {"encoding": "base64"})


def test_a_message_with_an_index_beyond_its_keys_has_no_fee(chain: PayingChain) -> None:
    sound = chain.payment().message
    assert isinstance(sound, MessageV0)
    beyond = [CompiledInstruction(len(sound.account_keys), b"", b"")]
    keys = [*sound.account_keys]
    hash_ = sound.recent_blockhash
    head = sound.header
    legacy = Message.new_with_compiled_instructions(
        head.num_required_signatures,
        head.num_readonly_signed_accounts,
        head.num_readonly_unsigned_accounts,
        keys,
        hash_,
        beyond,
    )
    for message in (MessageV0(head, keys, hash_, beyond, []), legacy):
        with pytest.raises(RpcError, match="invalid message: index out of bounds") as refused:
            chain.call("getFeeForMessage", b64encode(to_bytes_versioned(message)).decode())
        assert refused.value.code == -32602

    fee = chain.call("getFeeForMessage", b64encode(to_bytes_versioned(sound)).decode())
    assert fee["value"] == 10_001


def test_an_account_that_was_never_initialised_holds_no_tokens(chain: PayingChain) -> None:
    empty = Keypair.from_seed(b"e" * 32).pubkey()
    chain.vm.bank.put(empty, Account(2_039_280, bytes(165), TOKEN))

    with pytest.raises(RpcError, match="not a Token account"):
        chain.call("getTokenAccountBalance", str(empty))


def test_send_transaction_reads_base58_by_default(chain: PayingChain) -> None:
    signature = chain.call("sendTransaction", b58encode(bytes(chain.payment())).decode())
    chain.slots(1)

    assert chain.status(signature)["err"] is None


def test_a_landed_transaction_has_its_message_balances_and_logs(chain: PayingChain) -> None:
    signature = chain.pay("0123456789abcdef0123456789abcdef")
    chain.slots(2)
    shown = chain.entry(signature)
    message, meta = shown["transaction"]["message"], shown["meta"]
    before, after = (
        {each["owner"]: int(each["uiTokenAmount"]["amount"]) for each in meta[balances]}
        for balances in ("preTokenBalances", "postTokenBalances")
    )
    buyer, treasury = str(chain.buyer.pubkey()), str(chain.vm.genesis.treasury.pubkey())

    assert shown["version"] == 0
    assert shown["slot"] == 2
    assert shown["blockTime"] == 1_800_000_000
    assert shown["transaction"]["signatures"][0] == signature
    assert message["header"]["numRequiredSignatures"] == 2
    assert [len(meta[b]) for b in ("preBalances", "postBalances")] == [8, 8]
    assert len(message["accountKeys"]) == 8
    assert after[treasury] - before[treasury] == PRICE
    assert before[buyer] - after[buyer] == PRICE
    assert meta["loadedAddresses"] == {"writable": [], "readonly": []}
    assert any("TransferChecked" in line for line in meta["logMessages"])


def test_payments_give_neither_swaps_nor_quarantined_calls(chain: PayingChain) -> None:
    gift = chain.call("devchain_faucet", ADDRESS, 10**9, 5)
    signatures = [gift, chain.pay(), chain.pay("too much", amount=10**12)]
    chain.slots(2)
    decoded = [
        decode_transaction(msgspec.json.encode(chain.entry(signature)), index)
        for index, signature in enumerate(signatures)
    ]

    assert any(chain.entry(gift)["meta"]["innerInstructions"])
    assert [(each.swaps, each.quarantined) for each in decoded] == [([], [])] * 3


def test_the_faucet_gives_sol_and_tokens(chain: PayingChain) -> None:
    chain.call("devchain_faucet", ADDRESS, 10**9, 5_000_000)
    chain.slots(1)
    owned = chain.call(
        "getTokenAccountsByOwner",
        ADDRESS,
        {"mint": str(chain.vm.genesis.mint)},
        {"encoding": "jsonParsed", **NEWEST},
    )["value"]
    supply = chain.call("getTokenSupply", str(chain.vm.genesis.mint), NEWEST)["value"]

    assert chain.call("getBalance", ADDRESS, NEWEST)["value"] == 10**9
    assert owned[0]["account"]["data"]["parsed"]["info"]["tokenAmount"]["uiAmountString"] == "5"
    assert supply["uiAmountString"] == "1005"


def test_the_faucet_refuses_while_too_many_transactions_wait(chain: PayingChain) -> None:
    for _ in range(PENDING_MAX):
        chain.call("devchain_faucet", ADDRESS, 0, 0)
    for method, lamports in (("requestAirdrop", 1), ("devchain_faucet", 10**9)):
        with pytest.raises(RpcError, match="too many transactions wait") as refused:
            chain.call(method, ADDRESS, lamports)
        assert refused.value.code == -32005


def test_addresses_of_a_lookup_table_are_loaded(chain: PayingChain) -> None:
    target = Keypair.from_seed(b"t" * 32).pubkey()
    table = Keypair.from_seed(b"l" * 32).pubkey()
    data = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(44) + bytes(target)
    chain.vm.bank.put(table, Account(10**9, data, TABLES))
    chain.slots(3)
    given = TransferParams(from_pubkey=chain.buyer.pubkey(), to_pubkey=target, lamports=10_000_000)
    message = MessageV0.try_compile(
        chain.buyer.pubkey(),
        [transfer(given)],
        [AddressLookupTableAccount(table, [target])],
        chain.blockhash(),
    )
    signature = chain.send(VersionedTransaction(message, [chain.buyer]))
    chain.slots(2)
    shown = chain.entry(signature)

    assert shown["meta"]["err"] is None
    assert shown["meta"]["loadedAddresses"] == {"writable": [str(target)], "readonly": []}
    assert shown["meta"]["postBalances"][2] == 10_000_000
    assert shown["transaction"]["message"]["addressTableLookups"][0]["writableIndexes"] == [0]
    assert len(chain.call("getSignaturesForAddress", str(target), {"commitment": "confirmed"})) == 1


def test_history_is_paged_newest_first(chain: PayingChain) -> None:
    signatures = []
    for number in range(5):
        signatures.append(chain.pay(f"quote {number}"))
        chain.slots(1)
    chain.slots(1)
    signatures.reverse()
    treasury = str(chain.vm.genesis.treasury_tokens)

    def page(**config: object) -> list[str]:
        asked = {"commitment": "confirmed", **config}
        return [
            each["signature"] for each in chain.call("getSignaturesForAddress", treasury, asked)
        ]

    assert page() == signatures
    assert page(limit=2) == signatures[:2]
    assert page(before=signatures[1], limit=2) == signatures[2:4]
    assert page(until=signatures[3]) == signatures[:3]
    assert chain.call("getSignaturesForAddress", ADDRESS) == []


def test_an_old_status_is_found_only_with_search_transaction_history(chain: PayingChain) -> None:
    signature = chain.pay()
    chain.slots(400)
    asked = {"searchTransactionHistory": True}

    assert chain.status(signature) is None
    assert chain.call("getSignatureStatuses", [signature], asked)["value"][0]["err"] is None


def test_account_data_has_the_requested_encoding_and_slice(chain: PayingChain) -> None:
    mint = str(chain.vm.genesis.mint)

    def data(**config: object) -> Any:
        return chain.call("getAccountInfo", mint, config)["value"]["data"]

    whole = bytes(chain.vm.bank.account(chain.vm.genesis.mint).data)  # type: ignore[union-attr]
    assert data(encoding="base64") == [b64encode(whole).decode(), "base64"]
    assert data(encoding="base58") == [b58encode(whole).decode(), "base58"]
    assert data() == b58encode(whole).decode()
    cut = data(encoding="base64", dataSlice={"offset": 44, "length": 1})
    assert cut == [b64encode(b"\x06").decode(), "base64"]
    with pytest.raises(RpcError, match="less than 128 bytes"):
        chain.call("getAccountInfo", str(chain.vm.genesis.treasury_tokens))


LONG = "1" * 5_000
MALFORMED: list[tuple[str, list[object]]] = [
    ("getAccountInfo", []),
    ("getAccountInfo", [7]),
    ("getAccountInfo", ["short"]),
    ("getAccountInfo", [LONG]),
    ("getAccountInfo", [ADDRESS, "base64"]),
    ("getAccountInfo", [ADDRESS, {"encoding": "base32"}]),
    ("getAccountInfo", [ADDRESS, {"commitment": "sure"}]),
    ("getAccountInfo", [ADDRESS, {"dataSlice": {"offset": -1, "length": 2}}]),
    ("getAccountInfo", [ADDRESS, {}, 3]),
    ("getMultipleAccounts", [[ADDRESS] * 101]),
    ("getMultipleAccounts", [ADDRESS]),
    ("getBalance", [None]),
    ("getTokenAccountBalance", [ADDRESS]),
    ("getTokenSupply", [ADDRESS]),
    ("getTokenLargestAccounts", [ADDRESS]),
    ("getTokenAccountsByOwner", [ADDRESS]),
    ("getTokenAccountsByOwner", [ADDRESS, {}]),
    ("getTokenAccountsByOwner", [ADDRESS, {"mint": ADDRESS}]),
    ("getTokenAccountsByOwner", [ADDRESS, {"programId": ADDRESS}]),
    ("getMinimumBalanceForRentExemption", [-1]),
    ("getMinimumBalanceForRentExemption", [1e9]),
    ("getMinimumBalanceForRentExemption", [10**12]),
    ("getLatestBlockhash", [3]),
    ("isBlockhashValid", ["0OIl"]),
    ("getFeeForMessage", ["!"]),
    ("getFeeForMessage", [""]),
    ("getFeeForMessage", ["AAAA"]),
    ("simulateTransaction", []),
    ("simulateTransaction", ["", {"encoding": "base64"}]),
    ("simulateTransaction", ["AQ==", {"encoding": "hex"}]),
    ("sendTransaction", ["%%%", {"encoding": "base64"}]),
    ("sendTransaction", ["l0l"]),
    ("sendTransaction", [LONG]),
    ("sendTransaction", ["AAAA", {"encoding": "base64", "skipPreflight": "yes"}]),
    ("getSignatureStatuses", [[ADDRESS]]),
    ("getSignatureStatuses", [["1" * 64] * 257]),
    ("getTransaction", ["1" * 64, {"commitment": "processed"}]),
    ("getTransaction", ["1" * 64, {"encoding": "jsonParsed"}]),
    ("getSignaturesForAddress", [ADDRESS, {"limit": 0}]),
    ("getSignaturesForAddress", [ADDRESS, {"limit": 1_001}]),
    ("getSignaturesForAddress", [ADDRESS, {"before": ADDRESS}]),
    ("requestAirdrop", [ADDRESS]),
    ("requestAirdrop", [ADDRESS, 0]),
    ("requestAirdrop", [ADDRESS, 10**20]),
    ("devchain_faucet", [ADDRESS, 1, -1]),
    ("devchain_getInfo", [1]),
]


@pytest.mark.parametrize(("method", "params"), MALFORMED)
def test_a_malformed_parameter_is_refused(method: str, params: list[object]) -> None:
    with pytest.raises(RpcError) as refused:
        SHARED.call(method, *params)

    assert refused.value.code == -32602
    assert refused.value.message.startswith(("Invalid param", "Method does not support"))
    assert len(refused.value.message) < 300


def test_a_min_context_slot_in_the_future_is_refused(chain: PayingChain) -> None:
    with pytest.raises(RpcError, match="Minimum context slot") as refused:
        chain.call("getBalance", ADDRESS, {"minContextSlot": 10**9})

    assert refused.value.code == -32016


def test_an_unknown_method_is_refused(chain: PayingChain) -> None:
    with pytest.raises(RpcError) as refused:
        chain.call("getEverything")

    assert refused.value.code == -32601


SHARED = PayingChain()
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from([ADDRESS, "1" * 64, "base64", "confirmed", "AAAA"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "encoding",
                    "commitment",
                    "mint",
                    "accounts",
                    "addresses",
                    "limit",
                    "landing",
                    "kind",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(SHARED.methods.by_name)), st.lists(JSON, max_size=3))
@pytest.mark.storm
@settings(max_examples=200, derandomize=True, deadline=None)
def test_no_parameter_makes_a_method_crash(method: str, params: list[object]) -> None:
    with suppress(RpcError):
        msgspec.json.encode(SHARED.call(method, *params))


REPLACED = {"encoding": "base64", "replaceRecentBlockhash": True}
SOUND = bytes(SHARED.payment())


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=4))
@pytest.mark.storm
@settings(max_examples=200, derandomize=True, deadline=None)
def test_no_changed_transaction_makes_the_machine_crash(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SOUND)
    for at, byte in changes:
        data[at] = byte
    text = b64encode(data).decode()
    with suppress(RpcError):
        SHARED.call("simulateTransaction", text, REPLACED)
    with suppress(RpcError):
        SHARED.call("sendTransaction", text, {"encoding": "base64", "skipPreflight": True})
    SHARED.slots(1)
    assert simulate(SHARED, SHARED.payment(), commitment="processed")["err"] is None
