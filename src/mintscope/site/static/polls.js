// For parts of a page that reload themselves again and again: if there is no answer, the old content
// stays, a notice says that the page is not connected, and the requests continue.
"use strict";

const PATIENCE_MS = 4_000; // the time limit of a request
const notice = document.createElement("p");
notice.className = "warning";
notice.id = "not-connected";
notice.setAttribute("role", "status");
notice.textContent = "Not connected: what is below is not updating. Trying again.";

const isPolled = (part) => part?.getAttribute("hx-trigger")?.startsWith("every ") ?? false;
const waiting = new Map();

// Calls *then* for the htmx event *name* of parts that reload themselves.
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
  if (told.xhr.status >= 400) told.shouldSwap = false; // a page of a proxy, or an error, is not the part
  else notice.remove();
});
for (const name of ["responseError", "sendError", "sendAbort"]) hear(name, lose);
