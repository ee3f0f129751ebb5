// Changes of a page arrive as server-sent events; where they fail, the page asks for it again
// and again.  A hidden page does neither.
"use strict";

const STREAM_AGAIN_MS = 60_000; // for this long it asks before it opens a stream again
const SILENT_MS = 20_000; // then it asks once whether there is really nothing new
const FAILURES_MAX = 3; // in a row

// address  () => the address of the events
// hear     (the data of an event)
// ask      async () => whether anything was new; fails where there is no answer
// late     (whether the page is late)
// Returns a function that begins again, with another address.
export function follow({ address, hear, ask, late, pauseMs, pauseMaxMs }) {
  let source = null;
  let timer = null;
  let failures = 0;
  let heardAt = 0;

  function stop() {
    clearTimeout(timer);
    source?.close();
    source = timer = null;
  }

  function listen() {
    stop();
    if (document.hidden) return;
    if (!window.EventSource) {
      askAgain(Infinity);
      return;
    }
    heardAt = Date.now();
    source = new EventSource(address());
    source.addEventListener("news", (event) => {
      heardAt = Date.now();
      failures = 0;
      late(false);
      hear(JSON.parse(event.data));
    });
    // A process that stops ends all streams: the browser connects to another one by itself.
    source.addEventListener("end", (event) => {
      if (JSON.parse(event.data).reason !== "shutting_down") giveUp();
    });
    source.addEventListener("error", () => {
      failures += 1;
      if (failures >= FAILURES_MAX || source?.readyState === EventSource.CLOSED) giveUp();
    });
    timer = setTimeout(doubt, SILENT_MS);
  }

  function giveUp() {
    stop();
    failures = 0;
    askAgain(Date.now() + STREAM_AGAIN_MS);
  }

  // Nothing new, or a connection that is dead without a word?
  async function doubt() {
    const opened = source;
    let isDeaf = false;
    if (Date.now() - heardAt >= SILENT_MS) {
      try {
        isDeaf = await ask();
      } catch {
        isDeaf = true;
      }
    }
    if (source !== opened) return;
    if (isDeaf) giveUp();
    else timer = setTimeout(doubt, SILENT_MS);
  }

  function askAgain(untilMs, waitMs = pauseMs) {
    timer = setTimeout(async () => {
      const mine = timer;
      let nextMs = pauseMs;
      try {
        await ask();
        late(false);
      } catch {
        nextMs = Math.min(pauseMaxMs, waitMs * 2);
        late(nextMs > 2 * pauseMs);
      }
      if (timer !== mine) return; // it was stopped meanwhile
      if (Date.now() >= untilMs) listen();
      else askAgain(untilMs, nextMs);
    }, waitMs);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && listen());
  listen();
  return listen;
}

// Fetches a page of this site; null where nothing is new.
export async function fetched(address) {
  const headers = { accept: "text/html" };
  const response = await fetch(address, { headers, signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status !== 200) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}
