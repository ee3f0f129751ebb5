// Parts of a page that ask for themselves again and again: without an answer they keep what they
// show, say that they are not connected, and go on asking.
"use strict";

const PATIENCE_MS = 4_000; // with a request
const notice = document.createElement("p");
notice.className = "warning";
notice.id = "not-connected";
notice.setAttribute("role", "status");
notice.textContent = "Not connected: what is below is not updating. Trying again.";

const isPolled = (part) => part?.getAttribute("hx-trigger")?.startsWith("every ") ?? false;
const waiting = new Map();

// Listens to *name*, of polled parts only.
function hear(name, then) {
  document.addEventListener(`htmx:${name}`, (event) => {
    if (isPolled(event.detail.elt)) then(event.detail);
  });
}

function lose({ elt }) {
  if (elt.isConnected && elt.previousElementSibling !== notice) elt.before(notice);
}

hear("beforeRequest", ({ xhr }) => {
  waiting.set(xhr, setTimeout(() => xhr.abort(), PATIENCE_MS));
});
hear("afterRequest", ({ xhr }) => {
  clearTimeout(waiting.get(xhr));
  waiting.delete(xhr);
});
hear("beforeSwap", (told) => {
  if (told.xhr.status >= 400) told.shouldSwap = false; // a proxy's page, or an error: no such part
  else notice.remove();
});
for (const name of ["responseError", "sendError", "sendAbort"]) hear(name, lose);
