// A form that is sent twice, as by a double click, is sent once: the first answer is shown.
"use strict";

(() => {
  const AGAIN_MS = 3000; // after that it is meant, as when nothing came of it
  const sent = new WeakMap(); // forms, and when they were

  // At the window, after all who send a form by themselves.
  addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (Date.now() - (sent.get(event.target) ?? 0) < AGAIN_MS) event.preventDefault();
    else sent.set(event.target, Date.now());
  });
})();
