// The list stays current: it is asked for again, and what has changed is put in place.
// Without this file the page shows what was when it was loaded.
"use strict";

const PAUSE_MS = 3000;
const PAUSE_MAX_MS = 60000;
const HTML = { accept: "text/html" };
let pauseMs = PAUSE_MS;

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

// Puts the rows of *fresh* into *body*: those that are there already stay the same elements, so
// that what has the focus keeps it.
function merge(body, fresh) {
  const rows = new Map([...body.rows].map((row) => [row.dataset.mint, row]));
  [...fresh.rows].forEach((row, place) => {
    const here = rows.get(row.dataset.mint);
    if (here === undefined || here.cells.length !== row.cells.length) {
      body.insertBefore(row.cloneNode(true), body.rows[place] ?? null);
      return;
    }
    rows.delete(row.dataset.mint);
    [...row.cells].forEach((cell, number) => put(here.cells[number], cell));
    if (body.rows[place] !== here) body.insertBefore(here, body.rows[place] ?? null);
  });
  for (const row of rows.values()) row.remove();
}

function show(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const list = document.getElementById("list");
  const fresh = page.getElementById("list");
  if (list === null || fresh === null) return;
  const body = list.querySelector("tbody");
  const rows = fresh.querySelector("tbody");
  if (body === null || rows === null) {
    list.innerHTML = fresh.innerHTML;
  } else {
    merge(body, rows);
    list.querySelector(".fine").innerHTML = fresh.querySelector(".fine").innerHTML;
  }
  list.dataset.live = fresh.dataset.live;
}

async function refresh() {
  const list = document.getElementById("list");
  if (document.hidden || list === null) return;
  const address = new URL(location.href);
  address.searchParams.set("seen", list.dataset.live);
  const response = await fetch(address, { headers: HTML, signal: AbortSignal.timeout(10000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status === 200) show(await response.text());
}

async function keepCurrent() {
  const late = document.getElementById("late");
  try {
    await refresh();
    pauseMs = PAUSE_MS;
    if (late) late.hidden = true;
  } catch {
    pauseMs = Math.min(PAUSE_MAX_MS, pauseMs * 2);
    if (late) late.hidden = pauseMs <= 2 * PAUSE_MS;
  }
  setTimeout(keepCurrent, pauseMs);
}

// A star is sent without leaving the page.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "watch" || !event.submitter) return;
  event.preventDefault();
  const button = event.submitter;
  const sent = new URLSearchParams(new FormData(form, button));
  const response = await fetch(form.action, { method: "POST", body: sent, headers: HTML });
  if (!response.ok || new URL(response.url).pathname !== location.pathname) {
    location.assign(response.url);
    return;
  }
  const mint = button.value;
  button.blur();
  show(await response.text());
  document.querySelector(`.star[value="${CSS.escape(mint)}"]`)?.focus();
});

for (const choice of document.querySelectorAll(".narrowing select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
setTimeout(keepCurrent, pauseMs);
