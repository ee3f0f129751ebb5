"""The pages that sell, over a chain in this process, and a wallet of the Wallet Standard.

A script registers the wallet in the browser; the wallet signs in this process, with a real key.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from mintscope.app.stores.stores import Money
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import MemoryLimits
from mintscope.payments.merchant import Merchant
from mintscope.payments.reconciler import Secrets
from mintscope.payments.trials import Trials
from support.fakes.payment_memory import MemoryPaymentStore
from support.scenes.payments.payment_world import World, world_at
from support.scenes.payments.selling_api import MovablePrice, payment_tokens
from support.scenes.website import Website, served_website, website

SCRIPT: Final = """
(() => {
  const account = () => ({
    address: window.walletAddress, publicKey: new Uint8Array(32),
    chains: ["solana:mainnet"], features: ["solana:signTransaction", "solana:signMessage"],
  });
  const listeners = [];
  window.switchWallet = (address) => {
    window.walletAddress = address;
    for (const each of listeners) each({ accounts: [account()] });
  };
  const wallet = {
    version: "1.0.0", name: "Test wallet", chains: ["solana:mainnet"], accounts: [],
    icon: "data:image/svg+xml;base64," + btoa(
      '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">'
      + '<path fill="#74b" d="M0 0h1v1H0"/></svg>'),
    features: {
      "standard:connect": { version: "1.0.0", connect: async () => {
        window.walletAddress = await window.connectByWallet();
        return { accounts: [account()] };
      } },
      "standard:events": { version: "1.0.0", on: (_, listener) => {
        listeners.push(listener);
        return () => listeners.splice(listeners.indexOf(listener), 1);
      } },
      "solana:signMessage": { version: "1.0.0", signMessage: async ({ message }) => {
        const signature = atob(await window.signTextByWallet(new TextDecoder().decode(message)));
        return [{ signature: Uint8Array.from(signature, (each) => each.charCodeAt(0)) }];
      } },
      "solana:signTransaction": {
        version: "1.0.0", supportedTransactionVersions: ["legacy", 0],
        signTransaction: async ({ transaction }) => {
          const text = btoa(String.fromCharCode(...transaction));
          const signed = atob(await window.signByWallet(text));
          console.log("signed");
          return [{ signedTransaction: Uint8Array.from(signed, (each) => each.charCodeAt(0)) }];
        },
      },
    },
  };
  const register = (api) => api.register(wallet);
  window.dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail: register }));
  window.addEventListener("wallet-standard:app-ready", ({ detail }) => register(detail));
})();
"""


@dataclass
class BrowserWallet:
    """A wallet that answers the requests of a page according to its *manner*.

    key       the keypair that signs
    shows     the keypair whose address the page receives; None: *key*
    manner    "signs"; "refuses"; "closes"; "waits": it signs after the event *goes_on*; "strange":
              it does not connect
    signed    all transactions that it has signed
    """

    key: Keypair
    shows: Keypair | None = None
    manner: str = "signs"
    signed: list[bytes] = field(default_factory=list)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def enter(self, page: Page) -> None:
        """Install the wallet in the browser of *page*, from the next page load."""
        await page.expose_function("connectByWallet", self.connect)
        await page.expose_function("signByWallet", self.sign)
        await page.expose_function("signTextByWallet", self.sign_text)
        await page.add_init_script(SCRIPT)

    async def connect(self) -> str:
        if self.manner == "strange":
            raise PermissionError("User rejected the request.")
        return str((self.shows or self.key).pubkey())

    async def sign(self, text: str) -> str:
        if self.manner == "refuses":
            raise PermissionError("User rejected the request.")
        if self.manner == "closes":
            raise RuntimeError("Plugin Closed")
        if self.manner == "waits":
            await self.goes_on.wait()
        asked = VersionedTransaction.from_bytes(b64decode(text))
        ours = self.key.sign_message(to_bytes_versioned(asked.message))
        signatures = [asked.signatures[0], ours]
        self.signed.append(bytes(VersionedTransaction.populate(asked.message, signatures)))
        return b64encode(self.signed[-1]).decode()

    async def sign_text(self, text: str) -> str:
        return b64encode(bytes(self.key.sign_message(text.encode()))).decode()


@dataclass
class Shopfront:
    """Pages that sell for SCOPE, a token that is worth one dollar, on the chain of *world*."""

    site: Website
    world: World
    price: MovablePrice
    is_paused: bool = False

    def wallet(self, name: str = "buyer", **changes: Any) -> BrowserWallet:
        """Return the wallet of *name*; it has 1,000 tokens unless *changes* has an amount."""
        return BrowserWallet(self.world.fund(name, **changes))

    def payments(self) -> list[tuple[Any, ...]]:
        """Return the state and the amount of each payment in the books."""
        return self.site.rows("SELECT state, amount FROM payment ORDER BY begun_at")

    def credits_issued(self) -> int:
        return sum(row[0] for row in self.site.rows("SELECT balance FROM credit_account"))


@asynccontextmanager
async def shopfront(
    folder: Path,
    *,
    served: bool = True,
    takes_usdc: bool = False,
    trials_max: int | None = None,
    **parts: Any,
) -> AsyncIterator[Shopfront]:
    """Open the pages that sell, on the loopback address unless *served* is False.

    trials_max   after this number of failed payments in a minute, others are refused; None:
                 no limit
    parts        sections of the configuration
    """
    async with world_at(folder) as world:
        also = [world.usdc_terms] if takes_usdc else []
        price, usdc_price = MovablePrice(), MovablePrice()

        async def expect_open() -> None:
            if front.is_paused:
                raise ServiceUnavailable("closed: a pause")

        def merchant_of(money: Money) -> Merchant:
            world.secrets = Secrets.derive(money.pepper)
            trials = None
            if trials_max is not None:
                limits = MemoryLimits(world.clock)
                trials = Trials(limits, trials_max, buyers=MemoryPaymentStore())
            facilitator = world.facilitator(secrets=world.secrets, also=also, trials=trials)
            return Merchant(
                facilitator=facilitator,
                payment_tokens=payment_tokens(facilitator, [price, usdc_price]),
                rotations=world.stores[-1],
                adopter=world.adopter(),
                origin="https://shop.example",
            )

        parts |= {
            "clock": world.clock,
            "merchant_of": merchant_of,
            "expect_open": expect_open,
        }
        if served:
            opening = served_website(folder, **parts)
        else:  # cookies need an https origin
            opening = website(folder, origin="https://shop.example", **parts)
        async with opening as site:
            front = Shopfront(site, world, price)
            yield front
