"""Accounts of a devchain before its first block; they depend only on the seed.

None of their keys is a secret, because the seed determines all keys.
"""

from hashlib import sha256
from typing import Final

from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.token import ID as TOKEN
from solders.token.associated import get_associated_token_address
from solders.token.state import Mint, TokenAccount, TokenAccountState

from mintscope.solana.blocks import USDC
from mintscope_devchain.addresses import address
from mintscope_devchain.svm.bank import Bank
from mintscope_devchain.svm.tokens import ACCOUNT_BYTES, MINT_BYTES, read_holding, read_mint

PAYMENT_SYMBOL: Final = "MINT"
PAYMENT_DECIMALS: Final = 6
FAUCET_LAMPORTS: Final = 10**17
FEE_PAYER_LAMPORTS: Final = 10 * 10**9


class Genesis:
    """The keys of a devchain, and its first accounts.

    mint       the mint of the payment token, of the classic token program and without a freeze
               authority; a market with the same seed and enough tokens trades it with the symbol
               PAYMENT_SYMBOL
    usdc       the mint of USDC, at its address on mainnet
    treasury   receives payments: the payment token in its account `treasury_tokens`, and USDC
    fee_payer  pays the network fees of payments, and starts with 10 SOL
    faucet     mints the payment token and USDC, and gives away SOL
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.mint = Pubkey.from_string(address(seed, "mint", PAYMENT_SYMBOL))
        self.usdc = Pubkey.from_string(USDC)
        self.treasury = self.key("treasury")
        self.fee_payer = self.key("fee payer")
        self.faucet = self.key("faucet")
        self.treasury_tokens = self.tokens_of(self.treasury.pubkey())

    def key(self, role: str) -> Keypair:
        """Return the keypair that the seed gives to *role*: any text, such as "buyer"."""
        return Keypair.from_seed(self._digest(role))

    def blockhash(self, number: int) -> Hash:
        """Return a constant hash for the block *number*, instead of a hash of its content."""
        return Hash(self._digest(f"block {number}"))

    def tokens_of(self, owner: Pubkey, mint: Pubkey | None = None) -> Pubkey:
        """Return the address of *owner*'s token account for *mint*; None: for the payment token."""
        return get_associated_token_address(owner, mint or self.mint)

    def apply(self, bank: Bank) -> None:
        """Store the mints of the payment tokens, and the service's first accounts, in *bank*."""
        mint = Mint(self.faucet.pubkey(), 0, PAYMENT_DECIMALS, is_initialized=True)
        for each in (self.mint, self.usdc):
            bank.put(each, Account(bank.rent_exempt(MINT_BYTES), bytes(mint), TOKEN))
        self.endow(bank, self.faucet.pubkey(), lamports=FAUCET_LAMPORTS)
        self.endow(bank, self.fee_payer.pubkey(), lamports=FEE_PAYER_LAMPORTS)
        for each in (self.mint, self.usdc):
            self.endow(bank, self.treasury.pubkey(), lamports=0, atoms=0, mint=each)

    def endow(
        self,
        bank: Bank,
        owner: Pubkey,
        *,
        lamports: int,
        atoms: int | None = None,
        mint: Pubkey | None = None,
    ) -> None:
        """Add *lamports* and *atoms* to the balances of *owner*, without a transaction.

        A missing token account is created unless *atoms* is None.

        mint    the token of the atoms; None: the payment token
        """
        mint = mint or self.mint
        wallet = bank.account(owner) or Account(0, b"", SYSTEM)
        bank.put(owner, Account(wallet.lamports + lamports, wallet.data, wallet.owner))
        if atoms is None:
            return
        at = self.tokens_of(owner, mint)
        holding = read_holding(bank.account(at))
        held = atoms + (0 if holding is None else holding.amount)
        tokens = TokenAccount(mint, owner, held, None, TokenAccountState.Initialized, None, 0)
        bank.put(at, Account(bank.rent_exempt(ACCOUNT_BYTES), bytes(tokens), TOKEN))
        self._issue(bank, mint, atoms)

    def _issue(self, bank: Bank, at: Pubkey, atoms: int) -> None:
        account = bank.account(at)
        mint = read_mint(account)
        assert account is not None
        assert mint is not None
        more = Mint(mint.mint_authority, mint.supply + atoms, mint.decimals, is_initialized=True)
        bank.put(at, Account(account.lamports, bytes(more), TOKEN))

    def _digest(self, name: str) -> bytes:
        return sha256(f"mintscope devchain {self.seed} {name}".encode()).digest()
