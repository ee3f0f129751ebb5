"""Third-party clients read every answer of the devchain, and pay.

solana-py reads each answer with the types of solders; the x402 client builds a
payment from the answers.  Neither shares code with the devchain.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator

import pytest
from paying import PRICE, PayingChain, served
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Processed
from solana.rpc.models import TokenAccountOpts, TxOpts
from solders.account_decoder import ParsedAccount
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction
from solders.transaction_status import TransactionConfirmationStatus
from x402 import x402ClientSync
from x402.client_base import SpendControlAsset
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner
from x402.schemas import PaymentRequired, PaymentRequirements, ResourceInfo

pytestmark = pytest.mark.usefixtures("official_client")

NETWORK = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"


@pytest.fixture
async def client(chain: PayingChain) -> AsyncIterator[AsyncClient]:
    async with served(chain) as url, AsyncClient(url, commitment=Processed) as client:
        yield client


async def test_the_x402_client_pays(chain: PayingChain) -> None:
    async with served(chain) as url:
        offers = [
            await asyncio.to_thread(_build, chain, url, memo) for memo in ("quote 1", "quote 2")
        ]
    signatures = [chain.send(_sponsored(chain, offer)) for offer in offers]
    chain.slots(2)

    assert all(chain.status(signature)["err"] is None for signature in signatures)
    assert chain.received() == 2 * PRICE
    assert chain.entry(signatures[0])["meta"]["fee"] == 10_001


def _build(chain: PayingChain, url: str, memo: str) -> str:
    """Return the transaction that the official client offers for a 402."""
    genesis = chain.vm.genesis
    x402 = x402ClientSync()
    register_exact_svm_client(x402, KeypairSigner(chain.buyer), rpc_url=url)
    asset: SpendControlAsset = {
        "network": NETWORK,
        "asset": str(genesis.mint),
        "max_amount_per_payment": "10000",
    }
    x402.set_spend_controls({"allowed_assets": [asset]})
    payload = x402.create_payment_payload(
        PaymentRequired(
            resource=ResourceInfo(url="http://api.example/v1/token"),
            accepts=[
                PaymentRequirements(
                    scheme="exact",
                    network=NETWORK,
                    asset=str(genesis.mint),
                    amount=str(PRICE),
                    pay_to=str(genesis.treasury.pubkey()),
                    max_timeout_seconds=60,
                    extra={"feePayer": str(genesis.fee_payer.pubkey()), "memo": memo},
                )
            ],
        )
    )
    return str(payload.payload["transaction"])


def _sponsored(chain: PayingChain, text: str) -> VersionedTransaction:
    """Return the offered transaction with the signature of the fee payer added."""
    offered = VersionedTransaction.from_bytes(b64decode(text))
    sponsor = chain.vm.genesis.fee_payer.sign_message(bytes([0x80]) + bytes(offered.message))
    return VersionedTransaction.populate(offered.message, [sponsor, *offered.signatures[1:]])


async def test_solana_py_reads_accounts(chain: PayingChain, client: AsyncClient) -> None:
    genesis, owner = chain.vm.genesis, chain.buyer.pubkey()
    tokens = genesis.tokens_of(owner)
    mint = (await client.get_account_info(genesis.mint)).value
    parsed = (await client.get_account_info_json_parsed(genesis.mint)).value
    several = (await client.get_multiple_accounts([owner, tokens, Keypair().pubkey()])).value
    owned = (
        await client.get_token_accounts_by_owner(owner, TokenAccountOpts(mint=genesis.mint))
    ).value
    supply = (await client.get_token_supply(genesis.mint)).value

    assert mint is not None
    assert mint.data[44] == 6
    assert parsed is not None
    assert isinstance(parsed.data, ParsedAccount)
    assert parsed.data.program == "spl-token"
    assert [account is not None for account in several] == [True, True, False]
    assert [keyed.pubkey for keyed in owned] == [tokens]
    assert supply.amount == "1000000000"
    assert supply.ui_amount_string == "1000"
    assert (await client.get_balance(owner)).value == 10**9
    assert (await client.get_token_account_balance(tokens)).value.ui_amount == 1000
    assert (await client.get_minimum_balance_for_rent_exemption(165)).value == 2_039_280


async def test_solana_py_sends_a_payment_and_reads_its_status(
    chain: PayingChain, client: AsyncClient
) -> None:
    latest = (await client.get_latest_blockhash()).value
    payment = chain.payment(blockhash=latest.blockhash)
    assert isinstance(payment.message, MessageV0)
    fee = (await client.get_fee_for_message(payment.message)).value
    simulated = (await client.simulate_transaction(payment, sig_verify=True)).value
    signature = (await client.send_raw_transaction(bytes(payment))).value
    skipping = (await client.send_transaction(payment, TxOpts(skip_preflight=True))).value
    chain.slots(2)
    status = (await client.get_signature_statuses([signature])).value[0]
    landed = (
        await client.get_transaction(
            signature, commitment=Confirmed, max_supported_transaction_version=0
        )
    ).value
    history = (
        await client.get_signatures_for_address(chain.buyer.pubkey(), commitment=Confirmed)
    ).value

    assert (fee, skipping) == (10_001, signature)
    assert simulated.err is None
    assert simulated.units_consumed
    assert status is not None
    assert status.confirmation_status == TransactionConfirmationStatus.Confirmed
    assert landed is not None
    assert landed.transaction.meta is not None
    assert landed.transaction.meta.fee == 10_001
    assert [(each.signature, each.memo) for each in history] == [(signature, "[7] a quote")]
    assert (await client.get_block_height()).value == 2


async def test_solana_py_gets_its_airdrop(chain: PayingChain, client: AsyncClient) -> None:
    stranger = Keypair.from_seed(b"a" * 32).pubkey()
    signatures = [(await client.request_airdrop(stranger, 5_000_000_000)).value for _ in range(2)]
    chain.slots(1)

    assert len(set(signatures)) == 2
    assert (await client.get_balance(stranger)).value == 10_000_000_000
