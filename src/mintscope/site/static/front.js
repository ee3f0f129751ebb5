// Updates the live parts of the front page, and the age of its block.
// Without this file, the page shows the state at the time of loading.
import { fetched, follow } from "./live.js";

const live = document.getElementById("live");
const part = (name) => live.querySelector(`[data-part="${name}"]`);
const [loaded] = performance.getEntriesByType("navigation");
// How far the clock of this machine is ahead of the service's, because it may be wrong.
const aheadMs = performance.timeOrigin + (loaded?.responseStart ?? 0) - Number(live.dataset.now);

function put(name, html) {
  const here = part(name);
  if (here === null || here.contains(document.activeElement) || here.innerHTML === html) return;
  here.innerHTML = html;
}

// The same text as `old_text` in page.py.
function oldText(ageMs) {
  const seconds = Math.floor(ageMs / 1000);
  if (seconds < 1) return "under a second old";
  if (seconds < 120) return `${seconds} s old`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min old` : `${Math.floor(seconds / 3600)} h old`;
}

let isLost = false;

function showAge() {
  const ageMs = Math.max(0, Date.now() - aheadMs - Number(live.dataset.asOf));
  const isLate = ageMs > Number(live.dataset.degradedMs);
  const [badge, word, age] = ["state", "word", "age"].map((name) => part(name));
  if (badge === null) return;
  const text = isLost ? "not connected" : isLate ? "late" : "live";
  const kind = `badge ${isLost || isLate ? "wait" : "good"}`;
  if (badge.className !== kind) badge.className = kind;
  if (word.textContent !== text) word.textContent = text;
  if (age.textContent !== oldText(ageMs)) age.textContent = oldText(ageMs);
}

function hear({ slot, asOf, parts }) {
  for (const [name, html] of Object.entries(parts)) put(name, html);
  live.dataset.live = slot;
  live.dataset.asOf = asOf;
  showAge();
}

async function ask() {
  const fresh = (await fetched(`/live?seen=${live.dataset.live}`))?.getElementById("live");
  if (!fresh) return false; // nothing new
  const parts = [...fresh.querySelectorAll("[data-html]")];
  const { live: slot, asOf } = fresh.dataset;
  hear({ slot, asOf, parts: Object.fromEntries(parts.map((each) => [each.dataset.part, each.innerHTML])) });
  return false;
}

function connected(isConnected) {
  isLost = !isConnected;
  showAge();
}

follow({ address: () => "/live/events", hear: { news: hear }, ask, connected, pauseMs: 1000 });
setInterval(showAge, 250);
