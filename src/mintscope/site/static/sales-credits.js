// The page of a pasted credit token. The token is sent only in the header Authorization or in the
// form of a deposit, is not stored, and is wiped when the page is left.
"use strict";

(() => {
  const DAY_S = 86400;
  const DAYS = 30;
  const PITCH = 20;
  const BAR = 14;
  const HEIGHT = 120;
  const SVG = "http://www.w3.org/2000/svg";
  const UTC = new Intl.DateTimeFormat("en-GB", {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
    timeZone: "UTC",
  });
  const OTHERS = ["paste", "deposit", "lost"]; // hidden while a new credit token is shown
  const REFUSALS = { // messages for users, by the code of the error
    INVALID_TOKEN: "This service did not issue this credit token.",
    INVALID_PROOF: "This wallet did not buy credits with this transaction, or it signed after more than five minutes. Check the transaction, and try again.",
  };
  const FORM = /^svc_credit_[0-9a-f]{64}$/;
  const found = document.getElementById("found");
  const pasted = document.getElementById("pasted");
  const deposited = document.getElementById("deposited"); // null if no user is signed in
  const moved = document.getElementById("moved");
  const kept = document.getElementById("kept");
  const kinds = JSON.parse(found.dataset.kinds);
  const rotations = new Map(); // the key of each requested rotation, by credit token
  let history = null;
  let isUnsaved = false;

  const at = (root, name) => root.querySelector(`[data-${name}]`);
  const count = (value) => value.toLocaleString("en-US");

  // Returns the data of an answer; throws an Error with a message for the user.
  async function ask(path, options) {
    let answer;
    let body;
    try {
      answer = await fetch(path, options);
      body = await answer.json();
    } catch {
      throw new Error("There is no connection. It is safe to try again.");
    }
    if (!answer.ok) throw new Error(REFUSALS[body.error.code] ?? body.error.message);
    return body.data;
  }

  function tell(where, text) {
    document.getElementById(`${where}-error`).textContent = text;
  }

  const bearer = () => ({ Authorization: `Bearer ${pasted.value.trim()}` });

  async function look() {
    const text = pasted.value.trim();
    tell("pasted", "");
    found.hidden = true;
    if (text.startsWith("svc_live_")) {
      return tell("pasted", "This is an API key. Sign in to see the credits of its account.");
    }
    if (!FORM.test(text)) {
      return tell("pasted", "Expected svc_credit_ and 64 digits from 0 to 9 and a to f.");
    }
    try {
      history = await ask("/v1/credits/history", { headers: bearer() });
    } catch (error) {
      return tell("pasted", error.message);
    }
    draw();
    if (deposited) deposited.value = text;
    found.hidden = false;
    document.getElementById("balance-title").focus();
    TopUp.shown(text);
    return undefined;
  }

  // Shows the effect of a top-up; does not move the focus.
  async function lookAgain() {
    if (found.hidden) return;
    try {
      history = await ask("/v1/credits/history", { headers: bearer() });
      draw();
    } catch (error) {
      tell("pasted", error.message);
    }
  }

  function draw() {
    const today = Math.floor(Date.now() / 1000 / DAY_S);
    const used = new Map(history.days.map((each) => [each.day / DAY_S, Math.max(0, each.credits)]));
    const days = Array.from({ length: DAYS }, (_, number) => today - DAYS + 1 + number);
    const inAll = days.reduce((sum, day) => sum + (used.get(day) ?? 0), 0);
    at(found, "balance").textContent = count(history.balance);
    at(found, "spent").textContent = count(history.spent);
    at(found, "used").textContent = `${count(inAll)} in 30 days, ${count(used.get(today) ?? 0)} today`;
    at(found, "first-day").textContent = dayText(days[0]);
    at(found, "bars").replaceChildren(bars(days, used, inAll));
    at(found, "entries").replaceChildren(...history.entries.map(row));
  }

  function dayText(day) {
    return new Date(day * DAY_S * 1000).toLocaleDateString("en-GB", {
      day: "numeric", month: "short", timeZone: "UTC",
    });
  }

  function shape(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // The same plot as `day_bars` in figures.py draws.
  function bars(days, used, inAll) {
    const most = Math.max(...days.map((day) => used.get(day) ?? 0));
    const rects = days.map((day, number) => {
      const credits = used.get(day) ?? 0;
      const height = credits ? Math.max(3, credits * HEIGHT / most) : 1;
      return shape("rect", {
        x: number * PITCH + (PITCH - BAR) / 2, y: HEIGHT - height, width: BAR, height, rx: 2,
        class: credits ? "" : "none",
      }, shape("title", {}, `${dayText(day)}: ${credits}`));
    });
    return shape("svg", {
      class: "days", viewBox: `0 0 ${DAYS * PITCH} ${HEIGHT}`, preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Credits used on each of the last 30 days: ${inAll} in all, ${most} at most`,
    }, ...rects);
  }

  function row(entry) {
    const line = document.createElement("tr");
    const moment = document.createElement("time");
    const when = new Date(entry.at * 1000);
    moment.dateTime = when.toISOString();
    moment.dataset.moment = "";
    moment.textContent = `${UTC.format(when)} UTC`;
    const signed = entry.credits > 0 ? `+${count(entry.credits)}` : count(entry.credits);
    const cells = [
      ["When", moment], ["What", kinds[entry.kind] ?? entry.kind],
      ["Credits", signed], ["Balance", count(entry.balance)],
    ];
    for (const [label, content] of cells) {
      const cell = line.insertCell();
      cell.dataset.label = label;
      const held = document.createElement("span");
      held.append(content);
      cell.append(held);
    }
    return line;
  }

  function save(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function csv() {
    const time = (seconds) => new Date(seconds * 1000).toISOString();
    const lines = [
      ...history.entries.map((each) => [each.at, each.kind, each.credits, each.balance]),
      ...history.days.map((each) => [each.day, "spend", -each.credits, ""]),
    ].sort((one, other) => other[0] - one[0]);
    const text = lines.map(([when, ...rest]) => [time(when), ...rest].join(",")).join("\n");
    save("mintscope-credits.csv", "text/csv", `at,kind,credits,balance\n${text}\n`);
  }

  function key() {
    return [...crypto.getRandomValues(new Uint8Array(24))]
      .map((each) => each.toString(16).padStart(2, "0")).join("");
  }

  async function rotate() {
    tell("rotate", TopUp.isUnderWay() ? "It is being topped up: finish that first." : "");
    if (TopUp.isUnderWay()) return;
    const token = pasted.value.trim();
    // After a lost answer, the same key returns the same new credit token.
    if (!rotations.has(token)) rotations.set(token, key());
    try {
      show(await ask("/v1/credits/rotate", {
        method: "POST", headers: { ...bearer(), "Idempotency-Key": rotations.get(token) },
      }));
    } catch (error) {
      tell("rotate", error.message);
    }
  }

  // Shows the new credit token until the user has saved it.
  function show(answer) {
    document.getElementById("secret").textContent = answer.token;
    at(moved, "moved").textContent = count(answer.credits);
    kept.checked = false;
    isUnsaved = true;
    for (const each of OTHERS) document.getElementById(each)?.toggleAttribute("hidden", true);
    found.hidden = true;
    TopUp.close();
    moved.hidden = false;
    document.getElementById("new-title").focus();
  }

  function done() {
    pasted.value = document.getElementById("secret").textContent;
    document.getElementById("secret").textContent = "";
    moved.hidden = true;
    for (const each of OTHERS) document.getElementById(each)?.toggleAttribute("hidden", false);
    look();
  }

  async function prove(wallet) {
    tell("lost", "");
    const purchase = document.getElementById("paid-by").value.trim();
    if (!/^[1-9A-HJ-NP-Za-km-z]{64,88}$/.test(purchase)) {
      return tell("lost", "Expected the signature of a transaction: 64 to 88 digits of base58.");
    }
    const post = (path, fields) => ask(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields),
    });
    let reason = "Your wallet did not sign the text, so nothing was moved.";
    const challengeFor = async (address) => {
      try {
        return (await post("/v1/credits/rotate/challenge", { wallet: address, purchase })).challenge;
      } catch (error) {
        reason = error.message;
        throw error;
      }
    };
    let proof;
    try {
      proof = { purchase, ...await Wallets.signText(wallet, challengeFor) };
    } catch {
      return tell("lost", reason);
    }
    try {
      show(await post("/v1/credits/rotate", proof));
    } catch (error) {
      tell("lost", error.message);
    }
    return undefined;
  }

  function listWallets() {
    const signing = Wallets.signingTexts();
    const lost = document.getElementById("lost");
    at(lost, "wallets").replaceChildren(...signing.map((wallet) => (
      Wallets.item(wallet, () => prove(wallet))
    )));
    at(lost, "wallets").hidden = signing.length === 0;
    at(lost, "no-wallet").hidden = signing.length > 0;
  }

  const ACTIONS = {
    look, rotate, csv, done,
    "top-up": () => TopUp.begin(pasted.value.trim()),
    download: () => save(
      "mintscope-credit-token.txt", "text/plain",
      `${document.getElementById("secret").textContent}\n`,
    ),
  };

  document.addEventListener("click", (event) => {
    ACTIONS[event.target.closest("[data-action]")?.dataset.action]?.();
  });
  pasted.addEventListener("keydown", (event) => { if (event.key === "Enter") look(); });
  kept.addEventListener("change", () => {
    isUnsaved = !kept.checked;
    moved.querySelector('[data-action="done"]').disabled = !kept.checked;
  });
  addEventListener("beforeunload", (event) => { if (isUnsaved) event.preventDefault(); });
  document.addEventListener("purchase-ended", lookAgain);
  addEventListener("pagehide", () => {
    TopUp.close();
    pasted.value = "";
    if (deposited) deposited.value = "";
    history = null;
    found.hidden = true;
    document.getElementById("secret").textContent = "";
  });
  Wallets.watch(listWallets);
  TopUp.resume();
})();
