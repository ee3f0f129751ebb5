// What is live on the first page is asked for once a second, and what has changed is put in place.
// Without this file the page shows what was when it was loaded.
"use strict";

const PAUSE_MS = 1000;
const PAUSE_MAX_MS = 30000;
let pauseMs = PAUSE_MS;

function show(live, text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("live");
  if (fresh === null) return;
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const here = live.querySelector(`[data-part="${part.dataset.part}"]`);
    if (here === null || here.contains(document.activeElement)) continue;
    if (here.innerHTML !== part.innerHTML) here.innerHTML = part.innerHTML;
    here.className = part.className;
  }
  live.dataset.live = fresh.dataset.live;
}

async function refresh() {
  const live = document.getElementById("live");
  if (live === null || document.hidden) return;
  const response = await fetch(`/live?seen=${live.dataset.live}`, {
    headers: { accept: "text/html" },
    signal: AbortSignal.timeout(5000),
  });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status === 200) show(live, await response.text());
}

async function keepCurrent() {
  try {
    await refresh();
    pauseMs = PAUSE_MS;
  } catch {
    pauseMs = Math.min(PAUSE_MAX_MS, pauseMs * 2);
    const age = document.querySelector('[data-part="age"]');
    if (age) age.className = "badge wait";
  }
  setTimeout(keepCurrent, pauseMs);
}

setTimeout(keepCurrent, pauseMs);
