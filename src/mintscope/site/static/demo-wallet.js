// The wallet of a demo (Wallet Standard): its key is in the page, so its money is worthless.
// It asks before it signs, as real wallets do, but does not show the contents of a transaction.
"use strict";

{
  const SEED = document.currentScript.dataset.seed;
  const PKCS8 = "302e020100300506032b657004220420"; // the start of an Ed25519 key; the seed follows
  const DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  const KEY_BYTES = 32;
  const SIGNATURE_BYTES = 64;
  const ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 28"><rect width="28" '
    + 'height="28" rx="6" fill="#7a5af8"/><path fill="#fff" d="M6 9h16v11H6zm11 4v3h5v-3z"/></svg>';
  const CHAIN = "solana:mainnet"; // the chain of all payments of the demo; none leaves the demo

  const bytesOf = (hex) => Uint8Array.from(hex.match(/../g), (each) => parseInt(each, 16));

  function base58(bytes) {
    let left = bytes.reduce((sum, each) => sum * 256n + BigInt(each), 0n);
    let text = "";
    for (; left > 0n; left /= 58n) text = DIGITS[Number(left % 58n)] + text;
    return "1".repeat(bytes.findIndex((each) => each !== 0)) + text;
  }

  async function open() {
    const key = await crypto.subtle.importKey("pkcs8", bytesOf(PKCS8 + SEED), "Ed25519", true, ["sign"]);
    const { x } = await crypto.subtle.exportKey("jwk", key);
    const text = atob(x.replaceAll("-", "+").replaceAll("_", "/"));
    const publicKey = Uint8Array.from(text, (each) => each.charCodeAt(0));
    const account = {
      address: base58(publicKey), publicKey, chains: [CHAIN],
      features: ["solana:signTransaction", "solana:signMessage"],
    };
    return { key, account };
  }

  let opened = null;
  const wallet = () => (opened ??= open());

  function expectConsent(what) {
    if (!confirm(`Demo wallet: sign ${what}?`)) throw new Error("User rejected the request.");
  }

  async function sign(message) {
    const { key } = await wallet();
    return new Uint8Array(await crypto.subtle.sign("Ed25519", key, message));
  }

  // A transaction is a count, as many signatures, and the message, which names the signers first.
  async function signTransaction({ transaction }) {
    expectConsent("this payment");
    const { account } = await wallet();
    const signed = Uint8Array.from(transaction);
    const [count] = signed; // fewer than 128, so one byte
    const message = signed.subarray(1 + SIGNATURE_BYTES * count);
    const keys = message.subarray((message[0] & 128 ? 1 : 0) + 3 + 1); // version, header, their count
    for (let place = 0; place < count; place += 1) {
      const key = keys.subarray(KEY_BYTES * place, KEY_BYTES * (place + 1));
      if (key.every((each, at) => each === account.publicKey[at])) {
        signed.set(await sign(message), 1 + SIGNATURE_BYTES * place);
        return [{ signedTransaction: signed }];
      }
    }
    throw new Error("The demo wallet is no signer of this transaction.");
  }

  async function signMessage({ message }) {
    expectConsent(`this text:\n\n${new TextDecoder().decode(message)}\n\n`);
    return [{ signedMessage: message, signature: await sign(message) }];
  }

  const demo = {
    version: "1.0.0", name: "Demo wallet", chains: [CHAIN], accounts: [],
    icon: `data:image/svg+xml;base64,${btoa(ICON)}`,
    features: {
      "standard:connect": {
        version: "1.0.0", connect: async () => ({ accounts: [(await wallet()).account] }),
      },
      "standard:events": { version: "1.0.0", on: () => () => {} },
      "solana:signMessage": { version: "1.0.0", signMessage },
      "solana:signTransaction": {
        version: "1.0.0", supportedTransactionVersions: ["legacy", 0], signTransaction,
      },
    },
  };
  const register = (api) => api.register(demo);
  dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail: register }));
  addEventListener("wallet-standard:app-ready", ({ detail }) => register(detail));
}
