"""Facts of a mint, decoded from the bytes of its account and its metadata.

Layouts: SPL Token `Mint` (82 bytes), Token-2022 extensions (type, length, value after the account
type at byte 165), Token Metadata Interface (extension 19), Metaplex Token Metadata `Metadata`.
"""

import struct
from enum import StrEnum
from math import isfinite
from typing import Final

import msgspec
from solders.pubkey import Pubkey

from mintscope.kit.primitives import PUBKEY_BYTES, Mint, Slot, UnixMs, UnixS

METAPLEX: Final = Pubkey.from_string("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s")
MINT_BYTES: Final = 82
MULTISIG_BYTES: Final = 355  # no mint has this length
ACCOUNT_TYPE_AT: Final = 165
ACCOUNT_TYPE_MINT: Final = 1
METADATA_V1: Final = 4
UNIX_S_MAX: Final = 253_402_300_799  # the year 9999: a later time means never
TEXT_MAX: Final = 64  # the most stored characters of a name; Token-2022 has no limit

TRANSFER_FEE = 1
PERMANENT_DELEGATE = 12
TRANSFER_HOOK = 14
TOKEN_METADATA = 19
SCALED_UI_AMOUNT: Final = 25
PAUSABLE: Final = 26
# TransferFeeConfig has two authorities and the withheld amount, then the older and the newer fee:
# each has the epoch from which it applies (u64), its maximum (u64) and its basis points (u16).
TRANSFER_FEE_FORM: Final = struct.Struct("<QQH")
OLDER_FEE_AT: Final = 32 + 32 + 8
NEWER_FEE_AT: Final = OLDER_FEE_AT + TRANSFER_FEE_FORM.size
EPOCH_SLOTS: Final = 432_000  # on mainnet
HOOK_PROGRAM_AT: Final = 32  # after the authority of the hook
# ScaledUiAmountConfig has an authority, then the multiplier (f64), the time from which the newer
# multiplier applies (i64), and the newer multiplier (f64).
MULTIPLIERS: Final = struct.Struct("<dqd")
MULTIPLIERS_AT: Final = 32


class TokenProgram(StrEnum):
    """The programs whose mints can be tracked."""

    SPL = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
    SPL_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"


PROGRAM_NAMES: Final = {TokenProgram.SPL: "SPL Token", TokenProgram.SPL_2022: "Token-2022"}


class NotAMint(Exception):
    """The account at an address is not a mint that can be tracked; the message describes it."""


class ChainAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account of the chain as a node returned it.

    owner   the program that owns it
    """

    owner: str
    data: bytes


class ScaledUiAmount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The multiplier by which wallets multiply an amount of a token before they show it.

    multiplier       applies before *effective_at*; positive and finite
    new_multiplier   applies from *effective_at* on
    effective_at     Unix seconds, as set by the issuer; can be any integer of 64 bits
    """

    multiplier: float
    new_multiplier: float
    effective_at: int

    def at(self, time: UnixS) -> float:
        """Return the multiplier at *time*, by the same rule as in the token program."""
        return self.new_multiplier if time >= self.effective_at else self.multiplier

    def announced(self, time: UnixS) -> tuple[float, UnixS] | None:
        """Return the new multiplier and its time, if it will apply after *time*; otherwise None.

        None also if it is equal to the current multiplier, or if its time is later than UNIX_S_MAX.
        """
        is_ahead = time < self.effective_at <= UNIX_S_MAX
        if not is_ahead or self.new_multiplier == self.multiplier:
            return None
        return self.new_multiplier, UnixS(self.effective_at)


class MintFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The facts of a mint that a node returned, as of a slot.

    slot                the slot of the state that was read
    read_at_ms          the time of reading
    program             the owner of the account: a token program
    supply              number of raw units, the smallest units of the mint
    mint_authority      the account that can mint more; None: the supply cannot grow
    freeze_authority    the account that can freeze accounts; None: they cannot be frozen
    name, symbol        as the issuer wrote them, at most 64 characters; None if missing
    transfer_fee_bps    fee of a transfer, in basis points, or the announced fee if that is higher;
                        None without the extension
    transfer_hook       program that runs at every transfer; None if no program does
    permanent_delegate  account that can move or burn anyone's tokens; None if no account can
    scaled_ui_amount    how wallets scale amounts; None without valid multipliers, or in older facts
    pause_authority     account that can stop all transfers; None if no account can, or in older
                        facts
    """

    slot: Slot
    read_at_ms: UnixMs
    program: TokenProgram
    decimals: int
    supply: int
    mint_authority: str | None
    freeze_authority: str | None
    name: str | None
    symbol: str | None
    transfer_fee_bps: int | None
    transfer_hook: str | None
    permanent_delegate: str | None
    scaled_ui_amount: ScaledUiAmount | None = None
    pause_authority: str | None = None


def metadata_address(mint: Mint) -> str:
    """Return the address of the account in which Metaplex stores the name of *mint*."""
    seeds = [b"metadata", bytes(METAPLEX), bytes(Pubkey.from_string(mint))]
    return str(Pubkey.find_program_address(seeds, METAPLEX)[0])


def facts_of(
    mint: Mint,
    account: ChainAccount | None,
    metadata: ChainAccount | None,
    *,
    slot: Slot,
    read_at_ms: UnixMs,
) -> MintFacts:
    """Return the facts of *mint*, such as its name and supply, from its accounts on the chain.

    account    the account of the mint; None: it does not exist
    metadata   the account at `metadata_address`; ignored unless it is Metaplex's and of this mint

    Raises NotAMint if *account* is not a mint that can be tracked.
    """
    program, data = _expect_mint(mint, account)
    found = _extensions(data) if program is TokenProgram.SPL_2022 else {}
    name, symbol = _names(mint, found.get(TOKEN_METADATA), metadata)
    return MintFacts(
        slot=slot,
        read_at_ms=read_at_ms,
        program=program,
        decimals=data[44],
        supply=int.from_bytes(data[36:44], "little"),
        mint_authority=_optional(data, 0),
        freeze_authority=_optional(data, 46),
        name=name,
        symbol=symbol,
        transfer_fee_bps=_transfer_fee_bps(found.get(TRANSFER_FEE), slot),
        transfer_hook=_address(found.get(TRANSFER_HOOK), HOOK_PROGRAM_AT),
        permanent_delegate=_address(found.get(PERMANENT_DELEGATE), 0),
        scaled_ui_amount=_scaled(found.get(SCALED_UI_AMOUNT)),
        pause_authority=_address(found.get(PAUSABLE), 0),
    )


def permanent_delegate_of(data: bytes) -> str | None:
    """Return the account that can move anyone's tokens of the mint in *data*; None if no one can.

    data   the bytes of a mint of either token program
    """
    return _address(_extensions(data).get(PERMANENT_DELEGATE), 0)


def _expect_mint(mint: Mint, account: ChainAccount | None) -> tuple[TokenProgram, bytes]:
    if account is None:
        raise NotAMint(f"{mint}: expected a mint; the chain has no such account")
    data = account.data
    try:
        program = TokenProgram(account.owner)
    except ValueError:
        raise NotAMint(
            f"{mint}: expected a mint of a token program; the account belongs to {account.owner}"
        ) from None
    is_extended = (
        program is TokenProgram.SPL_2022
        and len(data) > ACCOUNT_TYPE_AT
        and len(data) != MULTISIG_BYTES
        and data[ACCOUNT_TYPE_AT] == ACCOUNT_TYPE_MINT
    )
    if len(data) != MINT_BYTES and not is_extended:
        raise NotAMint(f"{mint}: expected a mint; it is another account of the token program")
    if data[45] != 1:
        raise NotAMint(f"{mint}: expected a mint; the account was never set up")
    return program, data


def _extensions(data: bytes) -> dict[int, bytes]:
    """Return the first value of each extension type, up to an extension that cannot be read."""
    values: dict[int, bytes] = {}
    at = ACCOUNT_TYPE_AT + 1
    while at + 4 <= len(data):
        kind = int.from_bytes(data[at : at + 2], "little")
        end = at + 4 + int.from_bytes(data[at + 2 : at + 4], "little")
        if kind == 0 or end > len(data):  # type 0: the rest of the account is unused
            break
        values.setdefault(kind, data[at + 4 : end])
        at = end
    return values


def _names(
    mint: Mint, extension: bytes | None, metadata: ChainAccount | None
) -> tuple[str | None, str | None]:
    """Return the name and the symbol of *mint*; None if missing.

    extension   its metadata extension (Token-2022), from which they are taken; None: there is none
    metadata    otherwise, the account in which Metaplex stores them; None: there is none
    """
    # In both forms of metadata, the mint follows the update authority, which takes 32 bytes.
    key = bytes(Pubkey.from_string(mint))
    if extension is not None and extension[32:64] == key:
        return _texts(extension, 64)
    if metadata is not None and metadata.owner == str(METAPLEX):
        data = metadata.data
        if data[:1] == bytes([METADATA_V1]) and data[33:65] == key:
            return _texts(data, 65)
    return None, None


def _texts(data: bytes, at: int) -> tuple[str | None, str | None]:
    """Return the name and the symbol that begin at index *at* of *data*.

    Each is stored as four bytes of length, then UTF-8.
    """
    name, at = _text(data, at)
    symbol, _ = _text(data, at)
    return name, symbol


def _text(data: bytes, at: int) -> tuple[str | None, int]:
    """Return the string at index *at* of *data*, or None, and the index after it.

    Metaplex pads strings with zero bytes, which are removed.
    """
    end = at + 4 + int.from_bytes(data[at : at + 4], "little")
    if at + 4 > len(data) or end > len(data):
        return None, len(data)
    # The issuer writes these bytes: they may be no UTF-8.
    text = data[at + 4 : end].decode(errors="replace").replace("\0", "").strip()
    return text[:TEXT_MAX] or None, end


def _optional(data: bytes, at: int) -> str | None:
    """Return the optional address at index *at* of *data*, a COption<Pubkey>; None if unset."""
    return _address(data, at + 4) if data[at : at + 4] == b"\x01\0\0\0" else None


def _address(value: bytes | None, at: int) -> str | None:
    """Return the address at index *at* of *value*; None if it is missing, or 32 zero bytes."""
    key = b"" if value is None else value[at : at + PUBKEY_BYTES]
    return str(Pubkey.from_bytes(key)) if len(key) == PUBKEY_BYTES and any(key) else None


def _scaled(value: bytes | None) -> ScaledUiAmount | None:
    """Return the multipliers in the Token-2022 extension *value*.

    None if they are missing, or not positive and finite.
    """
    if value is None or len(value) < MULTIPLIERS_AT + MULTIPLIERS.size:
        return None
    multiplier, effective_at, newer = MULTIPLIERS.unpack_from(value, MULTIPLIERS_AT)
    if not all(isfinite(each) and each > 0 for each in (multiplier, newer)):
        return None
    return ScaledUiAmount(multiplier=multiplier, new_multiplier=newer, effective_at=effective_at)


def _transfer_fee_bps(value: bytes | None, slot: Slot) -> int | None:
    """Return the fee in the Token-2022 extension *value* in basis points; None if it is missing.

    It is the fee that applies at *slot*, or the announced one if it is higher.
    """
    if value is None or len(value) < NEWER_FEE_AT + TRANSFER_FEE_FORM.size:
        return None
    _, _, older_bps = TRANSFER_FEE_FORM.unpack_from(value, OLDER_FEE_AT)
    newer_epoch, _, newer_bps = TRANSFER_FEE_FORM.unpack_from(value, NEWER_FEE_AT)
    is_announced = slot // EPOCH_SLOTS < newer_epoch
    # An issuer may announce a lower fee again and again, before it ever applies.
    return int(max(older_bps, newer_bps) if is_announced else newer_bps)
