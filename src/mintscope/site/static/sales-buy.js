// A purchase from a wallet. The server decides the next step, in data-state of #purchase; states that
// the server cannot show are in templates of the page.
//
// Before a signed payment is sent, it is stored in the browser, with the key that proves who sent it.
// A page that is reopened sends the stored payment again: the same payment with the same key is one
// purchase, however often it is sent. While a purchase is stored, no other purchase begins.
//
// The credit token of a top-up is sent with the payment, in the header Authorization. It is not
// stored; only its last digits are, which are a checksum and not secret. A page without the credit
// token sends the payment without it, to find out whether the payment has arrived.
"use strict";

const Purchase = (() => {
  const SLOT = "mintscope.purchase";
  const LOST_RETRY_MS = 3000;
  // A payment that is refused after an answer was lost may still land during this time after signing.
  const DOUBT_MS = 180000;
  const CHECKSUM_LENGTH = 8;
  const TOP_UP = "top-up";
  const UNDER_WAY = [
    "connecting", "preparing", "approve", "sending", "lost", "waiting", "not-shown",
  ];
  let toppedUp = null; // the credit token that is topped up
  let abandon = () => {}; // cancels the request to the wallet
  let askNow = () => {}; // ends a pause
  let isUnsaved = false; // whether the page shows a credit token that was not saved

  const panel = () => document.getElementById("purchase");
  const sayings = () => document.getElementById("sayings");
  const markOf = (token) => token?.slice(-CHECKSUM_LENGTH) ?? null;

  function settle(shown) {
    for (const each of shown.querySelectorAll("[data-with-script]")) each.hidden = false;
    shown.querySelector("#purchase-title").focus();
  }

  // Shows the template *name* of the page.
  function say(name) {
    const said = sayings().querySelector(`[data-says="${name}"]`).content.cloneNode(true);
    panel().replaceChildren(said);
    panel().dataset.state = name;
    settle(panel());
  }

  // Sends a form; returns the #purchase of the answer, null if there is none. Throws without answer.
  async function post(path, fields, headers = {}) {
    const answer = await fetch(path, {
      method: "POST", body: new URLSearchParams(fields), headers: { Accept: "text/html", ...headers },
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return page.getElementById("purchase");
  }

  // Shows *part*, unless the page already shows the same, so that a user who types is not interrupted.
  function show(part) {
    const isNews = part.dataset.state !== panel().dataset.state
      || part.textContent !== panel().textContent;
    if (!isNews) return;
    panel().replaceWith(document.adoptNode(part));
    settle(panel());
  }

  const kept = () => JSON.parse(localStorage.getItem(SLOT) ?? "null");
  const keep = (purchase) => localStorage.setItem(SLOT, JSON.stringify(purchase));
  const forget = () => localStorage.removeItem(SLOT);

  function canKeep() {
    try {
      localStorage.setItem(`${SLOT}.probe`, "1");
      localStorage.removeItem(`${SLOT}.probe`);
      return true;
    } catch {
      return false;
    }
  }

  function hex(byteCount) {
    const drawn = crypto.getRandomValues(new Uint8Array(byteCount));
    return [...drawn].map((each) => each.toString(16).padStart(2, "0")).join("");
  }

  const bytesOf = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const textOf = (bytes) => btoa(String.fromCharCode(...bytes));

  // Returns the result of *asked*; throws if the user cancels first, or the function that *interrupt*
  // gets is called first.
  function unlessAbandoned(asked, interrupt = () => {}) {
    return new Promise((resolve, reject) => {
      abandon = () => reject(new Error("cancelled"));
      interrupt((why) => reject(new Error(why)));
      asked.then(resolve, reject);
    });
  }

  function isClosing(error) {
    return /clos/i.test(`${error?.message}`);
  }

  // Allows one purchase at a time in all tabs, if the browser supports locks.
  function alone(work) {
    if (!navigator.locks) return work();
    return navigator.locks.request(SLOT, { ifAvailable: true }, (lock) => (
      lock ? work() : say("elsewhere")
    ));
  }

  async function begin(wallet) {
    const { bundle, into, chain, asset } = sayings().dataset;
    const mark = into === TOP_UP ? markOf(toppedUp) : null;
    say("connecting");
    let account;
    try {
      account = await unlessAbandoned(Wallets.connect(wallet, chain));
    } catch (error) {
      return say(error.message === "cancelled" ? "cancelled" : "not-connected");
    }
    if (!account) return say("no-account");
    say("preparing");
    const key = hex(32);
    const { address } = account;
    let answer;
    try {
      answer = await post(`/buy/${bundle}/terms`, { wallet: address, key, asset, into });
    } catch {
      return say("offline");
    }
    if (!answer) return say("unavailable");
    show(answer);
    if (answer.dataset.state !== "approve") return undefined;
    const signed = await sign(wallet, account, chain, bytesOf(panel().dataset.transaction));
    if (!signed) return undefined;
    if (kept()) return say("elsewhere");
    const purchase = {
      key, bundle, into, asset, mark, transaction: textOf(signed), signedAt: Date.now(),
      isLost: false,
    };
    keep(purchase);
    return send(purchase);
  }

  // Returns the signed transaction; null if there is none, and then the page shows the reason.
  async function sign(wallet, account, chain, transaction) {
    let stop = () => {};
    try {
      return await unlessAbandoned(
        Wallets.sign(wallet, account, chain, transaction),
        (interrupt) => {
          stop = Wallets.watchAccount(wallet, account, () => interrupt("switched"));
        },
      );
    } catch (error) {
      const isOurs = error?.message === "cancelled" || error?.message === "switched";
      say(isOurs ? error.message : isClosing(error) ? "closed" : "declined");
      return null;
    } finally {
      stop();
    }
  }

  // Returns the header with the credit token that the purchase tops up, if this page has the token.
  function proofOf({ into, mark }) {
    const isShown = into === TOP_UP && toppedUp !== null && markOf(toppedUp) === mark;
    return isShown ? { Authorization: `Bearer ${toppedUp}` } : {};
  }

  // Sends the stored payment until its outcome is known.
  async function send(purchase) {
    say("sending");
    for (;;) {
      let answer = null;
      try {
        const { key, transaction, into, asset } = purchase;
        const fields = { key, transaction, into, asset };
        answer = await post(`/buy/${purchase.bundle}`, fields, proofOf(purchase));
      } catch {
        // There is no answer: the payment may have arrived.
      }
      const state = answer?.dataset.state;
      const mayLand = purchase.isLost && Date.now() - purchase.signedAt < DOUBT_MS;
      if (answer && !(state === "refused" && mayLand)) {
        show(answer);
        if (!answer.dataset.retryS) return end(state);
      } else {
        purchase.isLost = true;
        keep(purchase);
        say("lost");
      }
      await pause(Number(answer?.dataset.retryS ?? 0) * 1000 || LOST_RETRY_MS);
      if (kept()?.key !== purchase.key) return location.reload(); // another tab has changed it
    }
  }

  function pause(milliseconds) {
    return new Promise((resolve) => {
      askNow = resolve;
      setTimeout(resolve, milliseconds);
    });
  }

  function end(state) {
    if (["refused", "deposited", "topped-up", "arrived"].includes(state)) forget();
    document.dispatchEvent(new CustomEvent("purchase-ended", { detail: state }));
    isUnsaved = state === "bought";
    const box = panel().querySelector("[data-kept]");
    if (!box) return;
    const done = box.form.querySelector("button");
    const follow = () => { done.disabled = !box.checked; isUnsaved = !box.checked; };
    box.addEventListener("change", follow);
    box.form.addEventListener("submit", forget);
    follow();
  }

  function download() {
    const text = `${document.getElementById("secret").textContent}\n`;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = "mintscope-credit-token.txt";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const ACTIONS = {
    cancel: () => abandon(),
    ask: () => askNow(),
    download,
    forget: () => { forget(); location.assign(`/buy/${sayings().dataset.bundle}`); },
  };

  document.addEventListener("click", (event) => {
    ACTIONS[event.target.closest("[data-action]")?.dataset.action]?.();
  });

  addEventListener("beforeunload", (event) => {
    if (isUnsaved) event.preventDefault();
  });

  function listWallets() {
    const list = panel().querySelector("[data-wallets]");
    if (!list) return;
    list.replaceChildren(...Wallets.found.map((wallet) => (
      Wallets.item(wallet, () => alone(() => begin(wallet)))
    )));
    list.hidden = Wallets.found.length === 0;
    const unusable = panel().querySelector("[data-unusable]");
    unusable.querySelector("strong").textContent = [...Wallets.unusable].join(", ");
    unusable.hidden = Wallets.found.length > 0 || Wallets.unusable.size === 0;
    const isMissing = Wallets.found.length === 0 && Wallets.unusable.size === 0;
    panel().querySelector("[data-no-wallet]").hidden = !isMissing;
  }

  // Offers a purchase, or continues the stored one. The purchase tops up *token*, if there is one.
  function start(token = null) {
    toppedUp = token;
    if (canKeep() && kept()) return send(kept());
    for (const each of panel().querySelectorAll("[data-with-script]")) each.hidden = false;
    if (panel().dataset.state === "choose" && !canKeep()) return say("no-storage");
    return setTimeout(() => Wallets.watch(listWallets));
  }

  if (sayings()) {
    const needsToken = sayings().dataset.into === TOP_UP && !(canKeep() && kept());
    if (needsToken) location.replace("/credits?of=token");
    else start();
  }

  return {
    start,
    // Returns the stored purchase; null if there is none.
    kept: () => (canKeep() ? kept() : null),
    markOf,
    isUnderWay: () => UNDER_WAY.includes(panel()?.dataset.state),
    // Sends the stored purchase again at once if it tops up *token*.
    goOn(token) {
      if (markOf(token) !== kept()?.mark) return;
      toppedUp = token;
      askNow();
    },
    // Forgets the credit token.
    wipe() { toppedUp = null; },
  };
})();
