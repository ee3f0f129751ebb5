"""Builds instructions of the System, Compute Budget and token programs."""

from mintscope.solana.blocks import WSOL
from mintscope_devchain.addresses import ASSOCIATED, COMPUTE_BUDGET, RENT, SPL, SYSTEM, address, raw
from mintscope_devchain.market.pool import Fill, Token
from mintscope_devchain.shapes.bytes import u8, u32, u64
from mintscope_devchain.transaction import TOKEN_ACCOUNT_RENT, Invocation, Move


def budget(units: int, micro_lamports: int) -> tuple[Invocation, Invocation]:
    """Return the instructions that set the limit and the price of compute units."""
    return (
        Invocation(COMPUTE_BUDGET, (), u8(2) + u32(units)),
        Invocation(COMPUTE_BUDGET, (), u8(3) + u64(micro_lamports)),
    )


def pay(source: str, target: str, lamports: int) -> Invocation:
    """Return the System program's instruction to transfer *lamports* from *source* to *target*."""
    moved = Move(source, target, lamports)
    return Invocation(SYSTEM, (source, target), u32(2) + u64(lamports), moves=(moved,))


def transfer(source: str, target: str, amount: int, owner: str, token: Token) -> Invocation:
    """Return a Transfer of the token program of *token*: *amount* from *source* to *target*."""
    accounts = (source, target, owner)
    moved = Move(source, target, amount)
    return _named("Transfer", token.program, accounts, u8(3) + u64(amount), moved)


def transfer_checked(source: str, target: str, amount: int, owner: str, token: Token) -> Invocation:
    """Return the instruction TransferChecked: *amount* of *token* from *source* to *target*."""
    accounts = (source, token.mint, target, owner)
    moved = Move(source, target, amount)
    data = u8(12) + u64(amount) + u8(token.decimals)
    return _named("TransferChecked", token.program, accounts, data, moved)


def exchange(fill: Fill) -> tuple[Invocation, Invocation]:
    """Return the transfer of the trader's tokens to the pool, and of the pool's to the trader."""
    return (
        transfer_checked(fill.source, fill.vault_in, fill.amount_in, fill.trader, fill.received),
        transfer_checked(
            fill.vault_out, fill.target, fill.amount_out, fill.pool.address, fill.paid
        ),
    )


def mint_to(mint: str, target: str, amount: int, authority: str) -> Invocation:
    """Return a MintTo of the token program: *amount* is created in *target*."""
    accounts = (mint, target, authority)
    moved = Move("", target, amount)
    return _named("MintTo", SPL, accounts, u8(7) + u64(amount), moved)


def burn(mint: str, source: str, amount: int, owner: str) -> Invocation:
    """Return a Burn of the token program: *amount* in *source* is destroyed."""
    accounts = (source, mint, owner)
    moved = Move(source, "", amount)
    return _named("Burn", SPL, accounts, u8(8) + u64(amount), moved)


def ensure_account(account: str, owner: str, token: Token) -> Invocation:
    """Return a CreateIdempotent of the associated token program, which changes nothing.

    The account exists already.
    """
    accounts = (owner, account, owner, token.mint, SYSTEM, token.program)
    return _named("CreateIdempotent", ASSOCIATED, accounts, u8(1))


def wrap(account: str, owner: str, lamports: int) -> tuple[Invocation, ...]:
    """Return the calls that create *account*, which holds *lamports* of *owner* as wrapped SOL."""
    seed = address("seed", account)[:32].encode()
    named = u32(3) + raw(owner) + u64(len(seed)) + seed
    create = named + u64(TOKEN_ACCOUNT_RENT + lamports, 165) + raw(SPL)
    return (
        Invocation(SYSTEM, (owner, account), create, moves=(Move(owner, account, lamports),)),
        _named("InitializeAccount", SPL, (account, WSOL, owner, RENT), u8(1)),
    )


def unwrap(account: str, owner: str, lamports: int) -> Invocation:
    """Return the CloseAccount of a wrapped SOL account, which pays its lamports to *owner*."""
    moved = Move(account, owner, lamports)
    return _named("CloseAccount", SPL, (account, owner, owner), u8(9), moved)


def _named(
    name: str, program: str, accounts: tuple[str, ...], data: bytes, *moved: Move
) -> Invocation:
    """Return the call of an instruction that logs "Instruction: " and *name*."""
    return Invocation(program, accounts, data, says=f"Instruction: {name}", moves=moved)
