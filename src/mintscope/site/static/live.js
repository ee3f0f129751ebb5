// Changes of a page arrive as server-sent events; if no stream can be opened, the page requests them
// again and again.  A hidden page does neither.
"use strict";

const STREAM_AGAIN_MS = 60_000; // how long the page sends requests before it tries a stream again
const SILENT_MS = 20_000; // a working stream has a heartbeat every 15 s
const OPEN_MS = 4_500; // the time limit of an attempt
const AGAIN_MS = [250, 500, 1_000, 2_000]; // waits after failed attempts; each is shortened at random, to half at most
const LOOK_MS = 1_000;
const ASLEEP_MS = 5_000; // if a look comes this late, the machine has slept

// address    () => the address of the events
// hear       { name of an event: (its data) => void }
// ask        async () => whether a stream may be opened; throws if there is no answer
// connected  called with whether the page gets changes, at the start and whenever this changes
// pauseMs    the pause between two requests without a stream
// Returns a function that starts again, with a new address.
export function follow({ address, hear, ask, connected, pauseMs }) {
  let source = null;
  let timer = null;
  let failures = 0;
  let heardAt = 0;
  let lookedAt = Date.now();

  function stop() {
    clearTimeout(timer);
    source?.close();
    source = timer = null;
  }

  function listen() {
    stop();
    if (document.hidden) return;
    if (!window.EventSource) {
      askAgain(Infinity, 0);
      return;
    }
    const mine = new EventSource(address());
    source = mine;
    heardAt = Date.now();
    mine.addEventListener("open", () => {
      clearTimeout(timer);
      failures = 0;
      heardAt = Date.now();
      connected(true);
    });
    mine.addEventListener("beat", () => { heardAt = Date.now(); });
    for (const [name, put] of Object.entries(hear)) {
      mine.addEventListener(name, (event) => {
        heardAt = Date.now();
        put(JSON.parse(event.data));
      });
    }
    // If the process stops, an error follows, and a new stream is opened.
    mine.addEventListener("end", (event) => {
      if (JSON.parse(event.data).reason !== "shutting_down") askAgain(Date.now() + STREAM_AGAIN_MS, 0);
    });
    mine.addEventListener("error", () => {
      if (source !== mine) return;
      if (mine.readyState === EventSource.CLOSED) refused();
      else again();
    });
    timer = setTimeout(again, OPEN_MS);
  }

  // Tries again soon, after a random wait, so that not all pages try at the same time.
  function again() {
    stop();
    connected(false);
    const waitMs = AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)];
    failures += 1;
    timer = setTimeout(listen, waitMs * (0.5 + Math.random() / 2));
  }

  // The answer is not a stream: the limit of streams is reached, or the service is unavailable.
  async function refused() {
    stop();
    const mine = timer = setTimeout(again, OPEN_MS);
    try {
      const mayListen = await ask();
      if (timer !== mine) return; // the attempt has timed out, or was replaced
      if (mayListen) listen();
      else askAgain(Date.now() + STREAM_AGAIN_MS, pauseMs);
    } catch {
      if (timer === mine) again();
    }
  }

  function askAgain(untilMs, waitMs) {
    stop();
    connected(true);
    const mine = timer = setTimeout(async () => {
      try {
        await ask();
      } catch {
        if (timer === mine) again();
        return;
      }
      if (timer !== mine) return;
      if (Date.now() >= untilMs) listen();
      else askAgain(untilMs, pauseMs);
    }, waitMs);
  }

  // Start again after the machine has slept, or if a connection is dead without an error.
  setInterval(() => {
    const now = Date.now();
    const isSilent = source?.readyState === EventSource.OPEN && now - heardAt >= SILENT_MS;
    if (!document.hidden && (isSilent || now - lookedAt >= ASLEEP_MS)) {
      connected(false);
      listen();
    }
    lookedAt = now;
  }, LOOK_MS);
  addEventListener("offline", () => { if (!document.hidden) again(); });
  addEventListener("online", listen);
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && listen());
  listen();
  return listen;
}

// Fetches a page of this site; returns null if nothing is new.
export async function fetched(address) {
  const headers = { accept: "text/html" };
  const response = await fetch(address, { headers, signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status !== 200) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}
