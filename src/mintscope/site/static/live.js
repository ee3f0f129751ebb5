// Changes of a page arrive as server-sent events; where there is no room for a stream, the page
// asks for itself again and again.  A hidden page does neither.
"use strict";

const STREAM_AGAIN_MS = 60_000; // for this long it asks before it opens a stream again
const SILENT_MS = 20_000; // a stream that lives has a heartbeat every 15 s
const OPEN_MS = 4_500; // then an attempt is given up
const AGAIN_MS = [250, 500, 1_000, 2_000]; // waits after attempts that failed, each halved at most
const LOOK_MS = 1_000;
const ASLEEP_MS = 5_000; // a look that comes this late: the machine slept

// address    () => the address of the events
// hear       { name of an event: (its data) => void }
// ask        async () => whether a stream may be opened; fails where there is no answer
// connected  (whether the page gets changes): at each change of that, and as it begins
// Returns a function that begins again, with another address.
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
    // A process that stops ends all streams: the next one is asked for.
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

  // Another attempt, soon: not all pages at once.
  function again() {
    stop();
    connected(false);
    const waitMs = AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)];
    failures += 1;
    timer = setTimeout(listen, waitMs * (0.5 + Math.random() / 2));
  }

  // An answer that is no stream: there is no room for one, or the service is away.
  async function refused() {
    stop();
    const mine = timer = setTimeout(again, OPEN_MS);
    try {
      const mayListen = await ask();
      if (timer !== mine) return; // it was given up, or begun again
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

  // A network that is gone, a machine that slept, a connection that is dead without a word.
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

// Fetches a page of this site; null where nothing is new.
export async function fetched(address) {
  const headers = { accept: "text/html" };
  const response = await fetch(address, { headers, signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status !== 200) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}
