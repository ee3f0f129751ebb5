// Shows the current value of the chosen number next to the level. Without this file, the value stays
// that of the number that was chosen when the page was loaded.
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
