"""System and token program instructions."""

from mintscope.base.solana import WSOL
from mintscope.devchain.addresses import (
    ASSOCIATED,
    COMPUTE_BUDGET,
    RENT,
    SPL,
    SYSTEM,
    address,
    raw,
)
from mintscope.devchain.shapes.bytes import u8, u32, u64
from mintscope.devchain.transaction import TOKEN_ACCOUNT_RENT, Call, Move, Token


def budget(units: int, micro_lamports: int) -> tuple[Call, Call]:
    """Return the limit and the price of compute units."""
    return (
        Call(COMPUTE_BUDGET, (), u8(2) + u32(units)),
        Call(COMPUTE_BUDGET, (), u8(3) + u64(micro_lamports)),
    )


def pay(source: str, target: str, lamports: int) -> Call:
    """Return a System transfer."""
    return Call(
        SYSTEM,
        (source, target),
        u32(2) + u64(lamports),
        moves=(Move(source, target, lamports),),
    )


def transfer(source: str, target: str, amount: int, owner: str, token: Token) -> Call:
    """Return a token Transfer."""
    return Call(
        token.program,
        (source, target, owner),
        u8(3) + u64(amount),
        says="Instruction: Transfer",
        moves=(Move(source, target, amount),),
    )


def transfer_checked(source: str, target: str, amount: int, owner: str, token: Token) -> Call:
    """Return a token TransferChecked."""
    return Call(
        token.program,
        (source, token.mint, target, owner),
        u8(12) + u64(amount) + u8(token.decimals),
        says="Instruction: TransferChecked",
        moves=(Move(source, target, amount),),
    )


def mint_to(mint: str, target: str, amount: int, authority: str) -> Call:
    """Return a MintTo of the token program."""
    return Call(
        SPL,
        (mint, target, authority),
        u8(7) + u64(amount),
        says="Instruction: MintTo",
        moves=(Move("", target, amount),),
    )


def burn(mint: str, source: str, amount: int, owner: str) -> Call:
    """Return a Burn of the token program."""
    return Call(
        SPL,
        (source, mint, owner),
        u8(8) + u64(amount),
        says="Instruction: Burn",
        moves=(Move(source, "", amount),),
    )


def ensure_account(account: str, owner: str, token: Token) -> Call:
    """Return a CreateIdempotent of an account that exists already."""
    return Call(
        ASSOCIATED,
        (owner, account, owner, token.mint, SYSTEM, token.program),
        u8(1),
        says="Instruction: CreateIdempotent",
    )


def wrap(account: str, owner: str, lamports: int) -> tuple[Call, ...]:
    """Return what makes the temporary *account* of wrapped SOL, made with a seed."""
    seed = address("seed", account)[:32].encode()
    create = (
        u32(3)
        + raw(owner)
        + u64(len(seed))
        + seed
        + u64(TOKEN_ACCOUNT_RENT + lamports)
        + u64(165)
        + raw(SPL)
    )
    return (
        Call(SYSTEM, (owner, account), create, moves=(Move(owner, account, lamports),)),
        Call(SPL, (account, WSOL, owner, RENT), u8(1), says="Instruction: InitializeAccount"),
    )


def unwrap(account: str, owner: str, lamports: int) -> Call:
    """Return the CloseAccount that gives back what *account* holds."""
    return Call(
        SPL,
        (account, owner, owner),
        u8(9),
        says="Instruction: CloseAccount",
        moves=(Move(account, owner, lamports),),
    )
