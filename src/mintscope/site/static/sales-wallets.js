// The wallets of this browser that sign payments on Solana (Wallet Standard, without a library).
// https://github.com/wallet-standard/wallet-standard: the page sends `app-ready` with a `register`
// function; a wallet sends `register-wallet` with a function that takes it. Either may be first.
"use strict";

const Wallets = (() => {
  const CONNECT = "standard:connect";
  const EVENTS = "standard:events";
  const SIGN = "solana:signTransaction";
  const SIGN_TEXT = "solana:signMessage";
  const DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  const found = [];
  const unusable = new Set(); // names of Solana wallets that cannot sign our transactions
  const watchers = new Set();

  function isOfSolana(wallet) {
    return typeof wallet?.name === "string"
      && wallet.chains?.some((chain) => chain.startsWith("solana:"));
  }

  function isUsable(wallet) {
    return wallet.features?.[CONNECT] && wallet.features[SIGN]
      // Wallets that only support transactions without a version would refuse ours.
      && (wallet.features[SIGN].supportedTransactionVersions ?? [0]).includes(0);
  }

  function tellAll() {
    for (const tell of watchers) tell();
  }

  function register(...wallets) {
    for (const wallet of wallets) {
      if (!isOfSolana(wallet)) continue;
      if (!isUsable(wallet)) unusable.add(wallet.name);
      else if (!found.some((each) => each.name === wallet.name)) found.push(wallet);
    }
    tellAll();
    return () => {
      for (const wallet of wallets) {
        if (found.includes(wallet)) found.splice(found.indexOf(wallet), 1);
        unusable.delete(wallet?.name);
      }
      tellAll();
    };
  }

  function base58(bytes) {
    let number = bytes.reduce((sum, each) => sum * 256n + BigInt(each), 0n);
    let text = "";
    for (; number > 0n; number /= 58n) text = DIGITS[Number(number % 58n)] + text;
    for (const each of bytes) {
      if (each !== 0) break;
      text = `1${text}`;
    }
    return text;
  }

  addEventListener("wallet-standard:register-wallet", (event) => {
    if (typeof event.detail === "function") event.detail({ register });
  });
  dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: { register } }));

  return {
    found,
    unusable,
    // Returns a list item for *wallet*, with a button that calls *chosen*.
    item(wallet, chosen) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button wallet";
      if (typeof wallet.icon === "string" && wallet.icon.startsWith("data:image/")) {
        const icon = new Image(28, 28);
        icon.src = wallet.icon;
        icon.alt = "";
        button.append(icon);
      }
      button.append(wallet.name);
      button.addEventListener("click", chosen);
      const item = document.createElement("li");
      item.append(button);
      return item;
    },
    // Calls the given function now, and whenever a wallet is added or removed.
    watch(tell) { watchers.add(tell); tell(); },
    // Returns the account that can pay on *chain*; undefined if the wallet has none.
    async connect(wallet, chain) {
      const { accounts } = await wallet.features[CONNECT].connect();
      return accounts.find((each) => each.chains.includes(chain) && each.features.includes(SIGN));
    },
    // Returns the bytes of the signed *transaction*.
    async sign(wallet, account, chain, transaction) {
      const [{ signedTransaction }] = await wallet.features[SIGN].signTransaction({
        account, chain, transaction,
      });
      return signedTransaction;
    },
    // Returns the wallets that can sign texts.
    signingTexts: () => found.filter((each) => each.features[SIGN_TEXT]),
    // Returns the address, the text that *textFor* returns for it, and the signature in base58.
    async signText(wallet, textFor) {
      const { accounts } = await wallet.features[CONNECT].connect();
      const account = accounts.find((each) => each.features.includes(SIGN_TEXT));
      const challenge = await textFor(account.address);
      const [{ signature }] = await wallet.features[SIGN_TEXT].signMessage({
        account, message: new TextEncoder().encode(challenge),
      });
      return { wallet: account.address, challenge, signature: base58(signature) };
    },
    // Calls *switched* when the wallet no longer offers *account*; returns a function that stops this.
    watchAccount(wallet, account, switched) {
      const events = wallet.features[EVENTS];
      if (!events) return () => {};
      return events.on("change", ({ accounts }) => {
        if (accounts && !accounts.some((each) => each.address === account.address)) switched();
      });
    },
  };
})();
