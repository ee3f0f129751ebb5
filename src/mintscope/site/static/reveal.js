// Adds a button to each password field that shows the password.
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
  // Hide the password before it is sent, so that browsers do not store it among other entries.
  input.form.addEventListener("submit", () => show(false));
}
