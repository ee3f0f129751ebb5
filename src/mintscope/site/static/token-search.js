// Searches tokens while the user types a name, through the API. Without this file, a button of the
// form searches them.
"use strict";

for (const field of document.querySelectorAll("[data-token-search]")) {
  const PAUSE_MS = 250;
  const MOST = 6;
  const MINT = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;
  const input = field.querySelector("input");
  const list = field.querySelector("[data-found]");
  const said = field.querySelector("[data-found-text]");
  const sends = list.dataset.sends !== undefined; // whether a choice sends the form
  const VOLUME = new Intl.NumberFormat("en-US", {
    style: "currency", currency: "USD", notation: "compact", maximumFractionDigits: 1,
  });
  let timer = 0;
  let asked = new AbortController();

  function show(tokens) {
    list.replaceChildren(...tokens.map(item));
    list.classList.add("over");
    list.hidden = tokens.length === 0;
  }

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    made.dir = "auto"; // issuers choose the text freely
    return made;
  }

  function item({ mint, name, symbol, volumeUsdD1 }) {
    const ends = `${mint.slice(0, 4)}\u2026${mint.slice(-4)}`;
    const title = symbol || name || ends;
    const button = document.createElement("button");
    button.type = sends ? "submit" : "button";
    button.name = "choose";
    button.value = mint;
    button.append(
      element("strong", title), element("span", name === title ? "" : name ?? ""),
      element("code", ends), element("small", `${VOLUME.format(volumeUsdD1)} a day`),
    );
    const line = document.createElement("li");
    line.append(button);
    return line;
  }

  async function find() {
    const text = input.value.trim();
    asked.abort();
    said.textContent = "";
    if (!text || MINT.test(text)) return show([]);
    asked = new AbortController();
    const query = new URLSearchParams({ query: text, limit: MOST });
    try {
      const answer = await fetch(`/v1/tokens?${query}`, { signal: asked.signal });
      if (!answer.ok) return undefined; // the button still works
      const { tokens } = (await answer.json()).data;
      said.textContent = tokens.length ? "" : "No tracked token has this name.";
      return show(tokens);
    } catch {
      return undefined;
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, PAUSE_MS);
  });
  // The arrow keys move through the results; Escape closes them, and so does moving to another field.
  field.addEventListener("keydown", (event) => {
    const stops = [input, ...list.querySelectorAll("button")];
    const place = stops.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (list.hidden || place < 0) return;
    if (event.key === "Escape") {
      clearTimeout(timer);
      asked.abort();
      show([]);
      input.focus();
    } else if (step) {
      stops[(place + step + stops.length) % stops.length].focus();
    } else return;
    event.preventDefault();
  });
  field.addEventListener("focusout", (event) => {
    const isOver = list.classList.contains("over");
    if (isOver && event.relatedTarget !== null && !field.contains(event.relatedTarget)) show([]);
  });
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || sends) return;
    event.preventDefault();
    clearTimeout(timer);
    input.value = button.value;
    const title = button.querySelector("strong").textContent;
    said.replaceChildren("This is ", element("strong", title), ".");
    show([]);
    input.focus();
  });
}
