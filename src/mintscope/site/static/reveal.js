// A button beside each password field that shows what was typed; without this file there is none.
"use strict";

for (const control of document.querySelectorAll("[data-reveal]")) {
  const input = control.querySelector("input");
  const label = input.labels[0].textContent.trim();
  const button = document.createElement("button");
  const show = (shown) => {
    input.type = shown ? "text" : "password";
    button.textContent = shown ? "Hide" : "Show";
    button.setAttribute("aria-label", `${shown ? "Hide" : "Show"}: ${label}`);
  };
  button.type = "button";
  button.className = "button";
  button.addEventListener("click", () => { show(input.type === "password"); input.focus(); });
  show(false);
  control.append(button);
  // Sent as a password again, so that browsers never keep it among texts that were typed before.
  input.form.addEventListener("submit", () => show(false));
}
