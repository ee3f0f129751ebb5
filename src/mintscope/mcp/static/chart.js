// The chart of a token in a host of MCP Apps (version 2026-01-26). It talks only to its host.
"use strict";

const WIDTH = 720;
const AXIS = 64; // width of the column of numbers, right of the candles
const PRICES = { top: 8, bottom: 250 };
const RSI = { top: 276, bottom: 356 };
const STYLES = ["--color-background-primary", "--color-text-primary", "--color-text-secondary",
  "--color-border-primary", "--font-sans"];
const number = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 5, useGrouping: false });
const at = (id) => document.getElementById(id);
const buying = at("buy");
const credits = Number(buying.dataset.credits);
const usd = Number(buying.dataset.usd);

// The idempotency key of the next purchase. If the button is pressed again before the purchase
// succeeds, the same key is sent, and the service takes only one payment.
let key = newKey();
let asked = {};
let hasCredential = false; // whether the host sends a credential, to which credits are added

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
}

// JSON-RPC with the host.

const waiting = new Map();
let last = 0;

function send(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*"); // the app has no origin to name
}

function request(method, params) {
  last += 1;
  const id = last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

function answered({ id, result, error }) {
  const one = waiting.get(id);
  waiting.delete(id);
  if (error !== undefined) one?.reject(new Error(error.message));
  else one?.resolve(result);
}

const HEARD = {
  "ui/notifications/tool-input": ({ arguments: given }) => {
    asked = given ?? {};
    showBudget();
  },
  "ui/notifications/tool-result": show,
  "ui/notifications/tool-cancelled": () => say("The call was cancelled."),
  "ui/notifications/host-context-changed": dress,
};

window.addEventListener("message", ({ source, data }) => {
  if (source !== window.parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) answered(data);
  else if (data.id === undefined) HEARD[data.method]?.(data.params ?? {});
  else if (["ping", "ui/resource-teardown"].includes(data.method)) send({ id: data.id, result: {} });
  else send({ id: data.id, error: { code: -32601, message: `no such method: ${data.method}` } });
});

function dress({ theme, styles }) {
  const root = document.documentElement.style;
  if (theme !== undefined) root.setProperty("color-scheme", theme === "dark" ? "dark" : "light");
  for (const name of STYLES) {
    const value = styles?.variables?.[name];
    if (typeof value === "string") root.setProperty(name, value);
  }
}

// The purchase, within the `max_usd` that the caller of the chart gave.

function budget() {
  return Number(asked.max_usd ?? usd);
}

function showBudget() {
  const fits = usd <= budget();
  buying.disabled = !fits;
  buying.textContent = `Buy ${credits} credits for ${usd} USD`;
  if (!fits) buying.textContent += `: over your budget of ${budget()} USD`;
}

async function buy() {
  buying.disabled = true;
  say("The host is asked to pay.");
  const given = { bundle: credits, max_usd: Math.min(usd, budget()), idempotency_key: key };
  try {
    await bought(await request("tools/call", { name: "buy_credits", arguments: given }), given);
  } catch (cause) {
    say(`The host has not paid: ${cause.message}. The button sends the same purchase again.`);
  } finally {
    showBudget();
  }
}

async function bought({ isError, structuredContent: told }, given) {
  if (!isError) {
    key = newKey();
    say(`${credits} credits were bought.`);
    keepSecret(told?.data?.token);
  } else if (told?.x402Version === undefined) {
    say(told?.error?.message ?? "The purchase was refused.");
  } else { // payment terms: a host does not pay by itself, so its agent is asked
    const text = `Buy credits of mintscope: call buy_credits with ${JSON.stringify(given)}, and pay`
      + " its terms.";
    await request("ui/message", { role: "user", content: [{ type: "text", text }] });
    say("Your agent was asked to pay. Nothing was charged yet.");
  }
}

// Only this app gets the token of a purchase without a credential: unless it is shown, it is lost.
function keepSecret(token) {
  if (hasCredential || typeof token !== "string") return;
  at("secret").hidden = false;
  at("secret").querySelector("input").value = token;
}

// Output.

function say(text) {
  at("said").textContent = text;
}

function show({ isError, structuredContent: told }) {
  at("again").disabled = false;
  if (isError || told?.data === undefined) {
    say(told?.error?.message ?? told?.error ?? "There are no data.");
    return;
  }
  say("");
  hasCredential ||= told.meta.creditsRemaining !== undefined;
  const { columns, rows } = told.data.points;
  const points = rows.map((row) => Object.fromEntries(columns.map((name, n) => [name, row[n]])));
  at("title").textContent = `${told.data.token}, ${told.data.tf}`;
  const newest = points.at(-1);
  at("newest").textContent = newest === undefined ? "There are no candles yet." : describe(newest);
  draw(points);
}

function describe(point) {
  const parts = [["EMA 9", point.ema9], ["EMA 21", point.ema21], ["RSI", point.rsi]]
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name} ${number.format(value)}`);
  const time = new Date(point.t * 1000).toISOString().slice(0, 16).replace("T", " ");
  return [`${number.format(point["candle.c"])} USD at ${time} UTC`, ...parts].join("; ");
}

function element(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [each, value] of Object.entries(attributes)) made.setAttribute(each, value);
  made.textContent = text;
  return made;
}

function scale({ top, bottom }, low, high) {
  const span = high - low || Math.abs(high) || 1;
  return (value) => bottom - ((value - low) / span) * (bottom - top);
}

function draw(points) {
  const chart = at("chart");
  chart.replaceChildren();
  if (points.length === 0) return;
  const low = Math.min(...points.map((each) => each["candle.l"]));
  const high = Math.max(...points.map((each) => each["candle.h"]));
  const price = scale(PRICES, low, high);
  const rsi = scale(RSI, 0, 100);
  const step = (WIDTH - AXIS) / points.length;
  const x = (n) => (n + 0.5) * step;
  for (const value of [low, (low + high) / 2, high]) chart.append(...line(price(value), number.format(value)));
  for (const value of [30, 70]) chart.append(...line(rsi(value), String(value)));
  points.forEach((each, n) => chart.append(...candle(each, x(n), step, price)));
  for (const [name, y] of [["ema9", price], ["ema21", price], ["rsi", rsi]]) {
    const known = points.flatMap((each, n) => (each[name] === null ? [] : [`${x(n)},${y(each[name])}`]));
    chart.append(element("polyline", { class: name, points: known.join(" ") }));
  }
}

function line(y, text) {
  return [
    element("line", { class: "grid", x1: 0, x2: WIDTH - AXIS, y1: y, y2: y }),
    element("text", { x: WIDTH - AXIS + 4, y: y + 4 }, text),
  ];
}

function candle(each, x, step, price) {
  const [open, close] = [price(each["candle.o"]), price(each["candle.c"])];
  const kind = { class: close <= open ? "up" : "down" };
  const wide = Math.max(1, step * 0.6);
  return [
    element("line", { ...kind, x1: x, x2: x, y1: price(each["candle.h"]), y2: price(each["candle.l"]) }),
    element("rect", {
      ...kind, x: x - wide / 2, width: wide, y: Math.min(open, close),
      height: Math.max(1, Math.abs(open - close)),
    }),
  ];
}

async function readAgain() {
  at("again").disabled = true;
  say("Reading.");
  const { idempotency_key: _, ...again } = asked; // the same key would give the same answer
  try {
    show(await request("tools/call", { name: "show_chart", arguments: again }));
  } catch (cause) {
    say(`The host has not answered: ${cause.message}.`);
    at("again").disabled = false;
  }
}

async function start() {
  buying.addEventListener("click", buy);
  at("again").addEventListener("click", readAgain);
  const { hostContext } = await request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: "mintscope", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline"] },
  });
  dress(hostContext ?? {});
  send({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const { width, height } = document.documentElement.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
  }).observe(document.documentElement);
}

start();
