// The present value beside the level follows the number that is chosen. Without this file it is that
// of the number that was chosen when the page was made.
"use strict";

const select = document.querySelector("select[name=field]");
const shown = document.querySelector("[data-now-text]");
if (select && shown) {
  select.addEventListener("change", () => {
    const now = select.selectedOptions[0]?.dataset.now;
    const value = document.createElement("strong");
    value.textContent = now ?? "";
    shown.replaceChildren(...(now ? ["Now: ", value] : []));
  });
}
