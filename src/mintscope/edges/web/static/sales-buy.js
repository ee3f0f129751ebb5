// A purchase from a wallet. The server says what happens next, in data-state of #purchase; what it
// cannot say stands in templates of the page.
//
// Before a signed payment leaves this page it is kept in the browser's storage, with the key that
// proves whose it is. A page that is opened again finds it and sends it again: the same payment
// with the same key is one purchase, however often it is sent. While one is kept, none is begun.
"use strict";

(() => {
  const SLOT = "mintscope.purchase";
  const LOST_RETRY_MS = 3000;
  // A payment that was sent, and refused after the connection was lost, may still land: until then.
  const DOUBT_MS = 180000;
  const sayings = document.getElementById("sayings");
  if (!sayings) return;
  const { bundle, into, chain, asset } = sayings.dataset;
  let abandon = () => {}; // gives up what the wallet was asked
  let askNow = () => {}; // ends a pause
  let isUnsaved = false; // a credit token is on the page, and nowhere else

  const panel = () => document.getElementById("purchase");

  function settle(shown) {
    for (const each of shown.querySelectorAll("[data-with-script]")) each.hidden = false;
    shown.querySelector("#purchase-title").focus();
  }

  // Shows what the page itself says.
  function say(name) {
    const said = sayings.querySelector(`[data-says="${name}"]`).content.cloneNode(true);
    panel().replaceChildren(said);
    panel().dataset.state = name;
    settle(panel());
  }

  // Sends a form; returns the #purchase of the answer, null if it has none. Throws without answer.
  async function post(path, fields) {
    const body = new URLSearchParams(fields);
    const answer = await fetch(path, { method: "POST", body, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return page.getElementById("purchase");
  }

  function show(part) {
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

  // What *asked* gives, unless the person cancels or *interrupt* is called first.
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

  // One purchase at a time in all tabs, where the browser can tell.
  function alone(work) {
    if (!navigator.locks) return work();
    return navigator.locks.request(SLOT, { ifAvailable: true }, (lock) => (
      lock ? work() : say("elsewhere")
    ));
  }

  async function begin(wallet) {
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
      answer = await post(`/buy/${bundle}/terms`, { wallet: address, key, asset });
    } catch {
      return say("offline");
    }
    if (!answer) return say("unavailable");
    show(answer);
    if (answer.dataset.state !== "approve") return undefined;
    const signed = await sign(wallet, account, bytesOf(panel().dataset.transaction));
    if (!signed) return undefined;
    if (kept()) return say("elsewhere");
    const purchase = {
      key, bundle, into, asset, transaction: textOf(signed), signedAt: Date.now(), isLost: false,
    };
    keep(purchase);
    return send(purchase);
  }

  // The signed transaction; nothing where there is none, and the page says why.
  async function sign(wallet, account, transaction) {
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

  // Sends the kept payment until it is known what became of it.
  async function send(purchase) {
    say("sending");
    for (;;) {
      let answer = null;
      try {
        const { key, transaction, into, asset } = purchase;
        answer = await post(`/buy/${purchase.bundle}`, { key, transaction, into, asset });
      } catch {
        // No answer: it may have arrived.
      }
      const state = answer?.dataset.state;
      const mayLand = purchase.isLost && Date.now() - purchase.signedAt < DOUBT_MS;
      if (answer && !(state === "refused" && mayLand)) {
        show(answer);
        if (state !== "waiting") return end(state);
      } else {
        purchase.isLost = true;
        keep(purchase);
        say("lost");
      }
      await pause(Number(answer?.dataset.retryS ?? 0) * 1000 || LOST_RETRY_MS);
      if (kept()?.key !== purchase.key) return location.reload(); // another tab was told
    }
  }

  function pause(milliseconds) {
    return new Promise((resolve) => {
      askNow = resolve;
      setTimeout(resolve, milliseconds);
    });
  }

  function end(state) {
    if (state === "refused" || state === "deposited") forget();
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
    forget: () => { forget(); location.assign(`/buy/${bundle}`); },
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
    panel().querySelector("[data-no-wallet]").hidden = Wallets.found.length > 0;
  }

  if (panel().dataset.state === "choose" && !canKeep()) say("no-storage");
  else if (canKeep() && kept()) send(kept());
  else setTimeout(() => Wallets.watch(listWallets));
})();
