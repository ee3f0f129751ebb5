"""Sends JSON-RPC requests about payments; each request goes to one endpoint.

Clients wait for their payments, so a request that a node has answered is not repeated, unless the
node rejects the level `confirmed`.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from itertools import cycle
from typing import Annotated, Any, Final, Generic, TypeVar

import httpx
import msgspec
import structlog
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey

from mintscope.kit.errors import Undecodable, decode_base64, decode_json
from mintscope.kit.fair_queue import FairQueue
from mintscope.kit.http_client import open_client, read_body
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.payments.ports import ChainUnavailable, Unintelligible
from mintscope.payments.protocol.memo import TOKEN_ACCOUNT_BYTES, AccountState
from mintscope.solana.blocks import Endpoint
from mintscope.solana.finality_meter import CONFIRMED, FINALIZED, INVALID_PARAMS, as_final
from mintscope.solana.pace import Pace, pace_of_samples

ATOMS_MAX: Final = 2**63 - 1  # the limit of the store, for one payment
BALANCE_MAX: Final = 2**64 - 1  # the limit of the token program, for a balance before or after it

T = TypeVar("T")

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # a slot or a block height
Lamports = Annotated[int, msgspec.Meta(ge=0, le=ATOMS_MAX)]
SignatureText = Annotated[str, msgspec.Meta(min_length=1, max_length=88)]


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The commitment of a transaction; *err* is None if it succeeded."""

    err: Any
    confirmation_status: str | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether two thirds of the stake have voted for the transaction's block."""
        return self.confirmation_status in {"confirmed", "finalized"}

    @property
    def is_final(self) -> bool:
        """Whether the transaction is finalized: no fork can undo it."""
        return self.confirmation_status == "finalized"


class EpochInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The slot and the block height of the newest block at one commitment level."""

    absolute_slot: Number
    block_height: Number


class PerformanceSample(msgspec.Struct, frozen=True, rename="camel"):
    """A sample of the chain's pace: *num_slots* slots in *sample_period_secs* seconds."""

    num_slots: Number
    sample_period_secs: Number


class _AnswerContext(msgspec.Struct, frozen=True):
    slot: Number


class InContext(msgspec.Struct, Generic[T], frozen=True):
    """A node's answer: *value*, and in *context* the slot for which the node answered."""

    context: _AnswerContext
    value: T


class _TokenAmount(msgspec.Struct, frozen=True):
    amount: str


class AccountTokenBalance(msgspec.Struct, frozen=True, rename="camel"):
    """The balance of one token in an account, before or after a transaction."""

    account_index: int
    mint: str
    ui_token_amount: _TokenAmount


class _Loaded(msgspec.Struct, frozen=True):
    writable: list[str] = []
    readonly: list[str] = []


class _TransactionMeta(msgspec.Struct, frozen=True, rename="camel"):
    err: Any
    pre_token_balances: list[AccountTokenBalance] = []
    post_token_balances: list[AccountTokenBalance] = []
    loaded_addresses: _Loaded = _Loaded()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    account_keys: list[str]


class _SignedMessage(msgspec.Struct, frozen=True):
    message: _Message


class ConfirmedTransaction(msgspec.Struct, frozen=True):
    """The parts of a transaction in a block that payments need."""

    transaction: _SignedMessage
    meta: _TransactionMeta


class RecordedTransaction(msgspec.Struct, frozen=True):
    """A transaction in a block, as it was sent: in base64, with the name of that encoding."""

    transaction: tuple[str, str]


class _Simulated(msgspec.Struct, frozen=True):
    class Account(msgspec.Struct, frozen=True):
        """An account after the simulated transaction: data in base64, and that encoding's name."""

        data: tuple[str, str]

    err: str | dict[str, Any] | None
    accounts: list[Account | None] | None = None


class Arrival(msgspec.Struct, frozen=True):
    """A finalized transaction that touched an account; *err* is None if it succeeded."""

    signature: SignatureText
    err: Any


class _Account(msgspec.Struct, frozen=True):
    owner: str
    data: tuple[str, str]


class _AccountInfo(msgspec.Struct, frozen=True):
    value: _Account | None


class _Balance(msgspec.Struct, frozen=True):
    value: Lamports


class LatestBlockhash(msgspec.Struct, frozen=True, rename="camel"):
    """A node's newest blockhash at some commitment level.

    last_valid_block_height    None if the node omits it
    """

    blockhash: Annotated[str, msgspec.Meta(max_length=44)]
    last_valid_block_height: Number | None = None


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


ANSWER: Final = msgspec.json.Decoder(_Answer)
NUMBER: Final = msgspec.json.Decoder(Number)
TEXT: Final = msgspec.json.Decoder(str)
TIP: Final = msgspec.json.Decoder(EpochInfo)
SAMPLES: Final = msgspec.json.Decoder(list[PerformanceSample])
STATUSES: Final = msgspec.json.Decoder(InContext[list[Status | None]])
TRANSACTION: Final = msgspec.json.Decoder(ConfirmedTransaction | None)
WIRE: Final = msgspec.json.Decoder(RecordedTransaction | None)
SIMULATED: Final = msgspec.json.Decoder(InContext[_Simulated])
ARRIVALS: Final = msgspec.json.Decoder(list[Arrival])
ACCOUNT: Final = msgspec.json.Decoder(_AccountInfo)
BLOCKHASH: Final = msgspec.json.Decoder(InContext[LatestBlockhash])
BALANCE: Final = msgspec.json.Decoder(_Balance)


def received(found: ConfirmedTransaction, *, asset: Mint, treasury: str) -> int:
    """Return the increase of the balance of *treasury*, in atoms of *asset*.

    Raises    ValueError for invalid amounts
    """
    loaded = found.meta.loaded_addresses
    keys = [*found.transaction.message.account_keys, *loaded.writable, *loaded.readonly]

    def balance(entries: list[AccountTokenBalance]) -> int:
        return sum(
            _atoms(entry)
            for entry in entries
            if entry.mint == asset
            # A slice, because the index in a damaged answer may be out of range.
            and keys[entry.account_index : entry.account_index + 1] == [treasury]
        )

    paid = balance(found.meta.post_token_balances) - balance(found.meta.pre_token_balances)
    if abs(paid) > ATOMS_MAX:
        raise ValueError(f"expected {ATOMS_MAX} atoms at most; was {paid}")
    return paid


def _atoms(entry: AccountTokenBalance) -> int:
    text = entry.ui_token_amount.amount
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(BALANCE_MAX))):
        raise ValueError(f"expected an amount of atoms; was {text[:40]!r}")
    atoms = int(text)
    if atoms > BALANCE_MAX:
        raise ValueError(f"expected {BALANCE_MAX} atoms at most; was {text}")
    return atoms


log = structlog.get_logger()

CALL_S: Final = 5.0  # a request that takes longer counts as unanswered
# A connection pool searches its connections at each request, in quadratic time, so small pools are
# cheaper.
POOLS: Final = 16
CONNECTIONS_PER_POOL: Final = 4
CLOSED_MEANWHILE: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
SAMPLES_MAX: Final = 5  # the most samples in one request; each is of one minute
STATUSES_MAX: Final = 256  # the most signatures in one request; a limit of the validator
PAGE: Final = 1_000  # the most signatures in one answer; a limit of the validator
READS_AT_ONCE: Final = 12
# Errors of a simulation that are not the payer's fault: we lack funds, or the node is not ready.
NOT_THE_PAYERS: Final = frozenset(
    {"AccountNotFound", "InsufficientFundsForFee", "InvalidAccountForFee", "ClusterMaintenance"}
)
CLOCK_SYSVAR: Final = "SysvarC1ock11111111111111111111111111111111"
_UNIX_TIME: Final = slice(32, 40)  # the bytes of the time in the data of the clock sysvar
_AMOUNT: Final = slice(64, 72)  # the bytes of the atoms in the data of a token account


class _ParamsRefused(ChainUnavailable):
    """The node rejected the parameters of a request."""


_TROUBLES: Final[dict[int, type[ChainUnavailable]]] = {
    -32015: Unintelligible,  # a transaction of an unknown version
    INVALID_PARAMS: _ParamsRefused,
}


class SimulatedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a simulation at a node.

    slot      the slot of the block that the simulation started from
    result    atoms that the payer's account would have left, or the text of the error
    """

    slot: int
    result: int | str


class PaymentNode:
    """Sends JSON-RPC requests to one node.  Every method raises ChainUnavailable.

    If the node does not support the level `confirmed`, requests use the level `finalized`.
    """

    def __init__(self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None) -> None:
        self._url = endpoint.url
        self._pools = [
            open_client(
                headers={"Content-Type": "application/json", **endpoint.headers},
                timeout_s=CALL_S,
                connections_max=CONNECTIONS_PER_POOL,
                transport=transport,
            )
            for _ in range(POOLS)
        ]
        self._next_pool = cycle(self._pools)
        self._queue = FairQueue()  # a request blocks the event loop for half a millisecond
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._where = httpx.URL(endpoint.url).host  # never the path, which may contain a key
        self._knows_confirmed = True

    @property
    def knows_confirmed(self) -> bool:
        """Whether the node supports the level `confirmed`, as far as is known."""
        return self._knows_confirmed

    async def aclose(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(pool.aclose() for pool in self._pools))

    async def latest(self) -> tuple[Hash, InContext[LatestBlockhash]]:
        """Return the newest confirmed blockhash, and the node's whole answer."""
        options = {"commitment": CONFIRMED}
        found = await self._ask("getLatestBlockhash", [options], BLOCKHASH)
        try:
            return Hash.from_string(found.value.blockhash), found
        except ParseHashError as cause:
            raise Unintelligible("getLatestBlockhash: expected a hash in base58") from cause

    async def simulate(self, wire: bytes, source: Pubkey) -> SimulatedAnswer:
        """Return the balance of *source* after the transaction, or the error of the simulation.

        The node does not check signatures: this service checks the payer's signature, and ours
        is missing.  So if the node refuses to simulate, the payer is not at fault.
        """
        # Without `replaceRecentBlockhash`: the node must report a blockhash that it does not know.
        options = {
            "encoding": "base64",
            "sigVerify": False,
            "commitment": CONFIRMED,
            "accounts": {"encoding": "base64", "addresses": [str(source)]},
        }
        params = [b64encode(wire).decode(), options]
        trial = await self._ask("simulateTransaction", params, SIMULATED)
        error = trial.value.err
        slot = trial.context.slot
        if error is not None:
            if _is_ours(error):
                raise ChainUnavailable(f"simulateTransaction: {error}")
            text = error if isinstance(error, str) else msgspec.json.encode(error).decode()[:200]
            return SimulatedAnswer(slot=slot, result=text)
        account = (trial.value.accounts or [None])[0]
        if account is None:
            return SimulatedAnswer(slot=slot, result="the payer's token account does not exist")
        data = _data("simulateTransaction", account.data)
        if len(data) < TOKEN_ACCOUNT_BYTES:
            raise Unintelligible("simulateTransaction: expected the payer's token account")
        return SimulatedAnswer(slot=slot, result=int.from_bytes(data[_AMOUNT], "little"))

    async def send(self, wire: bytes) -> None:
        """Send the transaction; the node itself resends it until it expires."""
        # The payment was simulated before.  Without a preflight, nodes still look up the blockhash
        # at this level, to find the height until which they resend the transaction.
        options = {"encoding": "base64", "skipPreflight": True, "preflightCommitment": CONFIRMED}
        await self._ask("sendTransaction", [b64encode(wire).decode(), options], TEXT)

    async def pace(self) -> Pace | None:
        """Return the pace of the chain from the node's samples; None if the node has no samples."""
        found = await self._ask("getRecentPerformanceSamples", [SAMPLES_MAX], SAMPLES)
        return pace_of_samples((each.num_slots, each.sample_period_secs) for each in found)

    async def height(self, commitment: str) -> int:
        """Return the block height at *commitment*."""
        return await self._ask("getBlockHeight", [{"commitment": commitment}], NUMBER)

    async def tip(self, commitment: str) -> EpochInfo:
        """Return the slot and the height of the newest block at *commitment*."""
        return await self._ask("getEpochInfo", [{"commitment": commitment}], TIP)

    async def statuses(
        self, signatures: Sequence[Signature], *, search: bool
    ) -> InContext[list[Status | None]]:
        """Return the status of each signature, in the same order; None if it is not found.

        search    whether to search the node's whole history; otherwise only recent blocks
        """
        params = [list(signatures), {"searchTransactionHistory": search}]
        found = await self._ask("getSignatureStatuses", params, STATUSES)
        if len(found.value) != len(signatures):
            raise ChainUnavailable(f"expected {len(signatures)} statuses; was {len(found.value)}")
        return found

    async def transaction(self, signature: Signature) -> ConfirmedTransaction | None:
        """Return the transaction if it is confirmed; None otherwise."""
        options = {
            "encoding": "json",
            "commitment": CONFIRMED,
            "maxSupportedTransactionVersion": 0,
        }
        async with self._reads:
            return await self._ask("getTransaction", [signature, options], TRANSACTION)

    async def wire(self, signature: Signature) -> bytes | None:
        """Return the bytes of a confirmed transaction, as its sender signed it.

        Return None if it is not confirmed.
        """
        options = {
            "encoding": "base64",
            "commitment": CONFIRMED,
            "maxSupportedTransactionVersion": 0,
        }
        found = await self._ask("getTransaction", [signature, options], WIRE)
        return None if found is None else _data("getTransaction", found.transaction)

    async def account(self, address: str) -> AccountState | None:
        """Return the account at *address*; None if it does not exist."""
        params = [address, {"commitment": CONFIRMED, "encoding": "base64"}]
        found = (await self._ask("getAccountInfo", params, ACCOUNT)).value
        if found is None:
            return None
        return AccountState(owner=Wallet(found.owner), data=_data("getAccountInfo", found.data))

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the chain."""
        return await self._ask("getGenesisHash", [], TEXT)

    async def block_time_s(self) -> int:
        """Return the time of the newest confirmed block, in Unix seconds; from the clock sysvar."""
        clock = await self.account(CLOCK_SYSVAR)
        if clock is None or len(clock.data) < _UNIX_TIME.stop:
            raise ChainUnavailable("getAccountInfo: expected the clock; there is none")
        return int.from_bytes(clock.data[_UNIX_TIME], "little", signed=True)

    async def lamports(self, wallet: Wallet) -> int:
        """Return the balance of *wallet*, in lamports."""
        params = [wallet, {"commitment": CONFIRMED}]
        return (await self._ask("getBalance", params, BALANCE)).value

    async def arrivals(
        self, treasury: str, after: Signature | None, before: str | None
    ) -> list[Arrival]:
        """Return a page of finalized transactions that touched *treasury*, newest first.

        after, before    only transactions between these two; None: no bound
        """
        options: dict[str, Any] = {"commitment": FINALIZED, "limit": PAGE}
        options |= {} if after is None else {"until": after}
        options |= {} if before is None else {"before": before}
        params = [treasury, options]
        return await self._ask("getSignaturesForAddress", params, ARRIVALS)

    async def _ask(self, method: str, params: list[Any], decoder: "msgspec.json.Decoder[T]") -> T:
        """Return the result of *method*, at level `finalized` if the node lacks `confirmed`."""
        if not self._knows_confirmed:
            return await self._ask_at(method, as_final(params), decoder)
        try:
            return await self._ask_at(method, params, decoder)
        except _ParamsRefused:
            if as_final(params) == params or not await self._refuses_confirmed():
                raise
        # Requests that are refused at the same time log this only once.
        if self._knows_confirmed:
            self._knows_confirmed = False
            log.warning("confirmed_unknown", node=self._where, used=FINALIZED)
        return await self._ask_at(method, as_final(params), decoder)

    async def _refuses_confirmed(self) -> bool:
        """Return whether the node rejects the level `confirmed` but accepts `finalized`."""
        return await self._takes(CONFIRMED) is False and await self._takes(FINALIZED) is True

    async def _takes(self, level: str) -> bool | None:
        try:
            await self._ask_at("getSlot", [{"commitment": level}], NUMBER)
        except _ParamsRefused:
            return False
        except ChainUnavailable:
            return None
        return True

    async def _ask_at(
        self, method: str, params: list[Any], decoder: "msgspec.json.Decoder[T]"
    ) -> T:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            async with asyncio.timeout(CALL_S):
                body = await self._post_again(method, msgspec.json.encode(request))
            answer = decode_json(body, ANSWER)
            if answer.error is not None:
                said = f"{method}: {answer.error.message[:200]} ({answer.error.code})"
                raise _TROUBLES.get(answer.error.code, ChainUnavailable)(said)
            return _decode(method, answer.result, decoder)
        except (TimeoutError, httpx.HTTPError) as cause:
            raise ChainUnavailable(f"{method}: {type(cause).__name__}") from cause
        except Undecodable as cause:
            raise ChainUnavailable(f"{method}: expected a JSON-RPC answer; {cause}") from cause

    async def _post_again(self, method: str, request: bytes) -> bytes:
        """Return the answer; send *request* again if the node had just closed the connection.

        Every request may be sent twice: a transaction that is sent twice lands only once.
        """
        try:
            return await self._post(method, request)
        except CLOSED_MEANWHILE:
            return await self._post(method, request)

    async def _post(self, method: str, request: bytes) -> bytes:
        await self._queue.next()
        pool = next(self._next_pool)
        async with pool.stream("POST", self._url, content=request) as response:
            if response.status_code != httpx.codes.OK:
                raise ChainUnavailable(f"{method}: HTTP {response.status_code}")
            body = await read_body(response, bytes_max=ANSWER_BYTES_MAX)
        await self._queue.next()  # decoding the answer gets an iteration of its own
        return body


def _data(method: str, data: tuple[str, str]) -> bytes:
    try:
        return decode_base64(data[0])
    except Undecodable as cause:
        raise Unintelligible(f"{method}: {cause}") from cause


def _is_ours(error: str | dict[str, Any]) -> bool:
    """Return whether a simulation failed because we lack funds or the node is not ready."""
    if isinstance(error, dict):  # the fee payer is the first account of every payment
        return error.get("InsufficientFundsForRent") == {"account_index": 0}
    return error in NOT_THE_PAYERS


def _decode(method: str, result: msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decode_json(result, decoder)
    except Undecodable as cause:
        raise Unintelligible(f"{method}: expected another answer; {cause}") from cause
