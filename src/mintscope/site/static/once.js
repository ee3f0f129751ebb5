// Prevents a form from being sent twice, by a double click for example: the first answer is shown.
"use strict";

(() => {
  const AGAIN_MS = 3000; // a later click is intended: the first may have failed
  const sent = new WeakMap(); // the time at which each form was sent

  // Listen at the window, after all scripts that send a form themselves.
  addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (Date.now() - (sent.get(event.target) ?? 0) < AGAIN_MS) event.preventDefault();
    else sent.set(event.target, Date.now());
  });
})();
