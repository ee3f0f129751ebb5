// Conveniences only: every page works without this file.
"use strict";

for (const element of document.querySelectorAll("[data-with-script]")) {
  element.hidden = false;
  delete element.dataset.withScript; // from now on, `hidden` hides it as it hides other elements
}

// <button data-copy="ID">: puts the text of that element on the clipboard, and says so.
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  let copied = true;
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Some browsers, and all browsers without https, do not let scripts write to the clipboard.
    getSelection().selectAllChildren(source);
    copied = document.execCommand("copy");
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = copied ? "Copied" : "Press Ctrl+C";
  const status = document.getElementById("copy-status");
  if (status) status.textContent = copied ? "Copied to the clipboard." : "Selected: press Ctrl+C.";
  setTimeout(() => {
    button.textContent = before;
    if (status) status.textContent = "";
  }, 4000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

// <input type="checkbox" data-saved="PATH">: until it is checked, the browser asks before it leaves
// the page, because its content is shown only once. Reloading opens PATH, because the address of the
// page only has the form that was sent.
const saved = document.querySelector("[data-saved]");
if (saved) {
  const done = saved.form.querySelector("button");
  const follow = () => { done.disabled = !saved.checked; };
  history.replaceState(null, "", saved.dataset.saved);
  saved.addEventListener("change", follow);
  saved.form.addEventListener("submit", (event) => {
    if (saved.name) return;
    event.preventDefault(); // a form without fields would open PATH with a bare question mark
    location.assign(saved.dataset.saved);
  });
  follow();
  addEventListener("beforeunload", (event) => {
    if (!saved.checked) event.preventDefault();
  });
}
