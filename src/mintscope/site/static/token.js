// Updates the page of a token: its numbers, age, swaps and chart.
// Without this file, the page shows the state at the time of loading.
import {
  AVERAGES, DASH, MovingChart, element, pointOf, points, shortPrice, showPrice, wholeNumber,
} from "./token-chart.js";
import { follow } from "./live.js";

const KEY = "YOUR_KEY";
const POINTS_MAX = 20_000; // including older candles that the reader scrolled to
const TOGETHER_MS = 100;
const APART_MS = 500; // at least between two changes of the page
const NEW_MS = 1_200; // how long a new swap is marked
const OF_CANDLE = 8; // the number of fields of a point that are not indicators
const box = document.getElementById("chart");
const field = (name) => document.querySelector(`[data-field="${name}"]`);

let chart = null;

async function moveChart() {
  if (!box.dataset.library) return;
  const library = await import(box.dataset.library);
  chart = new MovingChart(library);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    chart.rebuild();
  });
}

const timeframe = box.dataset.timeframe;
const isWide = ["m30", "h4", "d1"].includes(timeframe);
const report = { indicators: {} };
let levels = JSON.parse(box.dataset.levels);
let lastTrade = Number(box.dataset.lastTrade ?? 0);

// Returns whether there was no trade in the day before *asOf*: then only the block may be live.
const isQuiet = (asOf) => lastTrade > 0 && asOf - lastTrade * 1000 >= 86_400_000;

const shownCells = new Map();

function showCell(name, value, tone) {
  const cell = field(name);
  if (!cell || value === undefined || shownCells.get(name) === `${value} ${tone}`) return;
  shownCells.set(name, `${value} ${tone}`);
  if (value === null) {
    cell.className = "level";
    cell.textContent = DASH;
    return;
  }
  cell.className = tone;
  const text = name.endsWith(".rsi") ? value.toFixed(1) : shortPrice(value, 4);
  cell.replaceChildren(element("span", { title: wholeNumber(value) }, text));
}

const side = (first, second) => (first > second ? "up" : first < second ? "down" : "level");

function showFrame(name, frame) {
  const usd = report.price.usd;
  for (const each of AVERAGES) showCell(`${name}.${each}`, frame[each], side(usd, frame[each]));
  const { rsi, macd } = frame;
  showCell(`${name}.rsi`, rsi, rsi > 70 || rsi < 30 ? "extreme" : "level");
  for (const part of ["line", "signal", "histogram"]) {
    const value = macd === undefined ? undefined : macd?.[part] ?? null;
    showCell(`${name}.macd.${part}`, value, side(value, 0));
  }
}

function showShares(pressure, now) {
  for (const place of document.querySelectorAll("[data-pressure]")) {
    const value = pressure[place.dataset.pressure];
    const isNone = value === 0 && lastTrade <= now - Number(place.dataset.spanS);
    const shown = isNone ? "no trades" : `${(value * 100).toFixed(2)} %`;
    if (place.dataset.shown === shown) continue;
    place.dataset.shown = shown;
    place.querySelector("svg").classList.toggle("none", isNone);
    place.querySelector(".bought").setAttribute("width", (value * 100).toFixed(2));
    place.querySelector(".number").textContent = isNone ? "no trades" : value.toFixed(2);
  }
}

function showIndicators() {
  const frame = report.indicators[timeframe];
  const point = points.at(-1);
  if (!frame || !point) return;
  for (const name of [...AVERAGES, "rsi"]) point[name] = frame[name];
  // A chart of wide candles has no EMA 200 if older candles are missing; a report may have it.
  if (isWide && points.at(-2)?.ema200 === null) point.ema200 = null;
  point.macd = frame.macd?.line ?? null;
  point.signal = frame.macd?.signal ?? null;
  point.histogram = frame.macd?.histogram ?? null;
  chart?.showNewest();
}

// A report has the values that have changed since the previous report.
function hearReport(told) {
  const { buySellPressure, ...frames } = told.indicators;
  for (const [name, frame] of Object.entries(frames)) {
    report.indicators[name] = { ...report.indicators[name], ...frame };
  }
  if (buySellPressure) report.pressure = buySellPressure;
  return told;
}

function showReport(told) {
  report.price = told.price;
  for (const [name, frame] of Object.entries(report.indicators)) showFrame(name, frame);
  if (report.pressure) showShares(report.pressure, told.dataSpan.to);
  showPrice(field("usd"), told.price.usd, "$");
  showPrice(field("sol"), told.price.sol, "", " SOL");
  field("slot").textContent = told.slot.toLocaleString("en-US");
  document.title = document.title.replace(/ [^ ]+ USD/, ` ${shortPrice(told.price.usd)} USD`);
  const fibonacci = report.indicators[timeframe]?.fibonacci;
  if (fibonacci) {
    levels = levels.map(([name, title]) => [name, title, fibonacci[name] ?? null]);
    chart?.setLevels(levels);
  }
  const point = points.at(-1);
  if (point && told.dataSpan.to < point.t + Number(box.dataset.widthS)) {
    point.close = told.price.usd;
    point.high = Math.max(point.high, point.close);
    point.low = Math.min(point.low, point.close);
  }
  showIndicators();
  age.hear(told.dataSpan.to * 1000);
}

function hearCandles(rows) {
  const newest = rows.at(-1)?.[0];
  while (points.at(-1)?.t > newest) points.pop(); // a fork has removed its swaps
  for (const row of rows) {
    const told = pointOf(row.slice(0, OF_CANDLE));
    const known = points.findLast((point) => point.t === told.t);
    if (known) Object.assign(known, told);
    else if (told.t > (points.at(-1)?.t ?? 0)) points.push(told);
    else continue;
  }
  if (points.length > POINTS_MAX) points.splice(0, points.length - POINTS_MAX);
  showIndicators();
  chart?.showNewest();
}

function hearAll(rows) {
  points.splice(0, points.length, ...rows.map(pointOf));
  chart?.setAll();
}

// The figures are HTML, rendered as in the list of tokens.
function hearFigures(told) {
  for (const [name, html] of Object.entries(told)) {
    const place = document.querySelector(`[data-figure="${name}"]`);
    if (place && place.innerHTML !== html) place.innerHTML = html;
  }
}

let unmarking = null; // the timer that removes the marks of new swaps
const shortened = (text) => `${text.slice(0, 4)}\u2026${text.slice(-4)}`;

function swapLine(swap, isNew) {
  const at = new Date(swap.at).toISOString();
  const price = element("td");
  if (swap.usd === null) price.textContent = DASH;
  else showPrice(price, swap.usd, "$");
  const link = element("a", {
    class: "mono", href: `https://solscan.io/tx/${swap.signature}`, rel: "noopener noreferrer",
    title: swap.signature,
  }, shortened(swap.signature));
  const other = element("a", {
    class: "other", href: `https://explorer.solana.com/tx/${swap.signature}`,
    rel: "noopener noreferrer", title: "In Solana Explorer",
  }, element("span", { "aria-hidden": "true" }, "\u2197"),
  element("span", { class: "unseen" }, `${swap.signature.slice(0, 4)} in Solana Explorer`));
  return element("tr", isNew ? { class: "new" } : {},
    element("td", {}, element("time", { datetime: at, "data-moment": "clock" }, at.slice(11, 19))),
    element("td", { class: swap.side === "buy" ? "up" : "down" }, swap.side),
    price,
    element("td", {}, swap.amount ?? DASH),
    element("td", {}, swap.paid),
    element("td", {}, swap.program),
    element("td", {}, link, " ", other));
}

function hearSwaps(swaps) {
  const lines = document.getElementById("swap-lines");
  if (!lines || lines.contains(document.activeElement)) return; // do not move the focus
  const signatures = () => [...lines.querySelectorAll("a.mono")].map((link) => link.title);
  const known = new Set(signatures());
  const added = swaps.filter((swap) => !known.has(swap.signature));
  if (added.length === 0) return;
  lines.querySelectorAll(".new").forEach((line) => line.classList.remove("new"));
  lines.prepend(...added.map((swap) => swapLine(swap, true)));
  while (lines.rows.length > swaps.length) lines.lastElementChild.remove();
  // After a fork, the swaps may differ from those shown.
  if (signatures().join() !== swaps.map((swap) => swap.signature).join()) {
    lines.replaceChildren(...swaps.map((swap) => swapLine(swap, !known.has(swap.signature))));
  }
  // The colour is not animated: painting it sixty times a second takes a fifth of the main thread.
  clearTimeout(unmarking);
  unmarking = setTimeout(() => lines.querySelectorAll(".new").forEach((line) => line.classList.remove("new")), NEW_MS);
}

// Counts the age of the newest block; corrects the clock of this machine, which may be wrong.

class Age {
  constructor(place) {
    const [loaded] = performance.getEntriesByType("navigation");
    this.place = place;
    this.text = document.getElementById("age");
    this.asOf = Number(place.dataset.asOf);
    this.ahead = performance.timeOrigin + (loaded?.responseStart ?? 0) - Number(place.dataset.now);
    this.isHeard = this.isLost = this.isRefused = false;
    setInterval(() => this.show(), 1000);
  }

  hear(asOf) {
    this.asOf = asOf;
    this.isHeard = true;
    this.note({ isLost: false, isRefused: false });
  }

  note(told) {
    Object.assign(this, told);
    this.show();
  }

  show() {
    const age = Math.max(0, Date.now() - this.ahead - this.asOf);
    const isLate = age > Number(this.place.dataset.degradedMs);
    const isEnded = this.isLost || this.isRefused;
    const isDormant = isQuiet(this.asOf);
    const moving = isLate ? "late" : isDormant ? "still" : "live";
    const state = isEnded ? "ended" : this.isHeard ? moving : "still";
    const why = this.isLost ? "not connected: trying again" : "no live updates: load the page again";
    const words = { live: "live, ", late: "late, " }[state] ?? (isDormant ? "newest block " : "");
    this.place.dataset.state = state;
    const text = `${words}${oldText(age)}${isEnded ? `, ${why}` : ""}`;
    if (this.text.textContent !== text) this.text.textContent = text;
  }
}

// The same text as `old_text` in page.py.
function oldText(ageMs) {
  const seconds = Math.floor(ageMs / 1000);
  if (seconds < 1) return "under a second old";
  if (seconds < 120) return `${seconds} s old`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min old` : `${Math.floor(seconds / 3600)} h old`;
}

const age = new Age(document.getElementById("freshness"));

const address = () => `${box.dataset.live}&since=${points.at(-1)?.t ?? ""}`;

// An answer without content means that the limit of open pages is reached, or the view has ended.
async function ask() {
  const stopped = new AbortController();
  const response = await fetch(address(), { signal: stopped.signal });
  stopped.abort();
  if (!response.ok) throw new Error(`status ${response.status}`);
  age.note({ isRefused: response.status !== 200 });
  return response.status === 200;
}

// A swap changes the report, the candles and the figures, which arrive one after the other.  They are
// shown together, at most twice a second, because each drawing costs as much again.  If an event has
// arrived more than once, the newest is shown.
const due = new Map();
let shownAt = -Infinity;

function showDue() {
  shownAt = performance.now();
  const all = [...due];
  due.clear();
  for (const [show, told] of all) queueMicrotask(() => show(told));
}

const together = (show, hear = (told) => told) => (told) => {
  const waitMs = Math.max(TOGETHER_MS, shownAt + APART_MS - performance.now());
  if (due.size === 0) setTimeout(showDue, waitMs);
  due.delete(show); // keep the order of arrival
  due.set(show, hear(told));
};

function hearMarket(told) {
  lastTrade = told.lastTrade ?? lastTrade;
  if (!isQuiet(age.asOf)) document.getElementById("dormant")?.remove();
  hearCandles(told.candles);
  hearSwaps(told.swaps);
}

const hear = {
  snapshot: together(showReport, hearReport),
  update: together(showReport, hearReport),
  series: together(hearAll),
  figures: together(hearFigures),
  market: together(hearMarket),
};
const connected = (isConnected) => age.note({ isLost: !isConnected });

moveChart().finally(() => follow({ address, hear, ask, connected, pauseMs: 30_000 }));

// The reader's own key is only inserted into the examples of this page.

const own = document.getElementById("own-key");
const lines = [...document.querySelectorAll("[data-example]")].map((line) => [line, line.textContent]);
own?.addEventListener("input", () => {
  for (const [line, text] of lines) line.textContent = text.replaceAll(KEY, own.value.trim() || KEY);
});
