// Updates the list of tokens as changes arrive.
// Without this file, the page shows the state at the time of loading.
import { fetched, follow } from "./live.js";

const HTML = { accept: "text/html" };
const list = () => document.getElementById("list");

function put(cell, fresh) {
  if (cell.innerHTML === fresh.innerHTML || cell.contains(document.activeElement)) return;
  const before = Number(cell.dataset.value);
  const after = Number(fresh.dataset.value);
  cell.innerHTML = fresh.innerHTML;
  if (fresh.dataset.value === undefined || before === after) return;
  cell.dataset.value = fresh.dataset.value;
  cell.dataset.moved = after > before ? "up" : "down";
  setTimeout(() => delete cell.dataset.moved, 900);
}

// Puts *rows*, [mint, (existing row) => new row or null], into *body*: an existing row can stay the
// same element, so that it keeps the focus.
function merge(body, rows) {
  const known = new Map([...body.rows].map((row) => [row.dataset.mint, row]));
  rows.forEach(([mint, make], place) => {
    const row = make(known.get(mint));
    if (row === null) return;
    known.delete(mint);
    if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
  });
  for (const row of known.values()) row.remove();
}

// Updates from a whole page that was fetched:

function putRow(here, fresh) {
  if (here === undefined || here.cells.length !== fresh.cells.length) return fresh.cloneNode(true);
  [...fresh.cells].forEach((cell, number) => put(here.cells[number], cell));
  return here;
}

function show(page) {
  const here = list();
  const fresh = page.getElementById("list");
  if (here === null || fresh === null) return;
  const body = here.querySelector("tbody");
  const rows = fresh.querySelector("tbody");
  const isWarned = (place) => place.querySelector(".warning") !== null;
  if (body === null || rows === null || isWarned(here) !== isWarned(fresh)) {
    here.innerHTML = fresh.innerHTML;
  } else {
    merge(body, [...rows.rows].map((row) => [row.dataset.mint, (known) => putRow(known, row)]));
    here.querySelector(".fine").outerHTML = fresh.querySelector(".fine").outerHTML;
  }
  Object.assign(here.dataset, fresh.dataset);
}

async function ask() {
  const address = new URL(location.href);
  address.searchParams.set("seen", list().dataset.live);
  const page = await fetched(address);
  if (page !== null) show(page);
  return page !== null;
}

// Updates from an event with the changed cells:

function cellsOf(cells) {
  const made = document.createElement("template");
  made.innerHTML = `<table><tbody><tr>${cells.map(([, html]) => html).join("")}</tr></tbody></table>`;
  return [...made.content.querySelector("tr").cells];
}

function starCell(mint, title) {
  const isOn = list().dataset.watched.split(" ").includes(mint);
  const stars = document.getElementById("stars").content;
  const cell = stars.querySelector(isOn ? ".on" : ".star:not(.on)").closest("td").cloneNode(true);
  const star = cell.querySelector(".star");
  star.value = mint;
  star.querySelector(".unseen").textContent = isOn ? `Stop watching ${title}` : `Watch ${title}`;
  return cell;
}

// Returns the updated row.  A row that is new here needs all of its cells, otherwise returns null.
function putCells(mint, here, cells) {
  const hasStars = list().dataset.watched !== undefined;
  const fresh = cellsOf(cells);
  if (here !== undefined) {
    cells.forEach(([number], place) => put(here.cells[number + hasStars], fresh[place]));
    return here;
  }
  if (cells.length < document.querySelectorAll("#list thead th:not(.star-cell)").length) return null;
  const row = document.createElement("tr");
  row.dataset.mint = mint;
  if (hasStars) row.append(starCell(mint, fresh[0].querySelector("b").textContent));
  row.append(...fresh);
  return row;
}

function hear({ slot, asOf, order, rows, footing }) {
  const here = list();
  const body = here?.querySelector("tbody");
  if (!body || order.length === 0 || here.querySelector(".warning")) {
    ask().catch(() => {});
    return;
  }
  merge(body, order.map((mint) => [mint, (known) => putCells(mint, known, rows[mint] ?? [])]));
  here.querySelector(".fine").outerHTML = footing;
  here.dataset.live = slot;
  here.dataset.asOf = asOf ?? "";
}

function address() {
  const asked = new URLSearchParams(location.search);
  asked.set("seen", list()?.dataset.live ?? "");
  return `/tokens/events?${asked}`;
}

function connected(isConnected) {
  document.getElementById("lost").hidden = isConnected;
}

const again = list()
  && follow({ address, hear: { news: hear }, ask: () => ask().then(() => false), connected, pauseMs: 3000 });

// If the chain is late, no events arrive, so the age of the newest final block is counted here.

if (list()) {
  const [loaded] = performance.getEntriesByType("navigation");
  const aheadMs = performance.timeOrigin + (loaded?.responseStart ?? 0) - Number(list().dataset.now);
  setInterval(() => {
    const { asOf, lateMs } = list().dataset;
    const ageMs = Date.now() - aheadMs - Number(asOf);
    const place = document.getElementById("late");
    place.hidden = !(asOf && ageMs > Number(lateMs));
    if (!place.hidden) place.querySelector("span").textContent = Math.floor(ageMs / 1000);
  }, 1000);
}

// Sends the form of a star without leaving the page.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "watch" || !event.submitter) return;
  event.preventDefault();
  const button = event.submitter;
  const sent = new URLSearchParams(new FormData(form, button));
  const response = await fetch(form.action, { method: "POST", body: sent, headers: HTML }).catch(() => null);
  document.getElementById("unchanged").hidden = response !== null;
  if (response === null) return;
  if (!response.ok || new URL(response.url).pathname !== location.pathname) {
    location.assign(response.url);
    return;
  }
  const mint = button.value;
  button.blur();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  show(page);
  document.getElementById("watched").textContent = page.getElementById("watched").textContent;
  document.querySelector(`.star[value="${CSS.escape(mint)}"]`)?.focus();
  again?.(); // with the new watchlist
});

// Stores the chosen columns for later visits; if all are chosen, stores nothing.
document.querySelector(".narrowing")?.addEventListener("submit", (event) => {
  const boxes = [...event.target.querySelectorAll('[name="column"]')];
  const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
  const isAll = ticked.length === 0 || ticked.length === boxes.length;
  try {
    if (isAll) localStorage.removeItem("mintscope.columns");
    else localStorage.setItem("mintscope.columns", ticked.join(","));
  } catch {
    // This browser stores nothing: the choice is only in the address.
  }
});

for (const choice of document.querySelectorAll(".narrowing select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}

// When the reader comes back, the form shows the filters of this list, not those chosen when the
// reader left.  A page that is loaded again has them, because of autocomplete="off".
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return; // the reader may have typed while the page was loading
  for (const form of document.querySelectorAll(".narrowing")) form.reset();
});
