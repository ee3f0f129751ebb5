// Stores the text of a form while its sender has to sign in first, or to open the page again in
// another session, and then restores it.
// The text is stored in this tab, for 15 minutes and the same account; passwords and codes never are.
"use strict";

(() => {
  const KEPT = "mintscope.typed";
  const KEPT_MS = 15 * 60_000;
  const SIGNING_IN = /^\/(sign-in|prove)(\/|$)/;
  const UNTYPED = new Set(["hidden", "password", "file", "submit", "button", "reset", "fieldset"]);
  const user = document.currentScript.dataset.user;
  const here = location.pathname;
  const formOf = (action) =>
    [...document.forms].find((form) => form.method === "post" && form.getAttribute("action") === action);
  const isTyped = (each) => each.name && !UNTYPED.has(each.type) && each.autocomplete !== "one-time-code";
  const typedIn = (form) => [...form.elements].filter(isTyped);
  const isPicked = (field) => field.type === "checkbox" || field.type === "radio";

  function read() {
    try {
      const typed = JSON.parse(sessionStorage.getItem(KEPT));
      return typed && Date.now() - typed.at < KEPT_MS ? typed : null;
    } catch {
      return null;
    }
  }

  function keep(typed) {
    try {
      if (typed === null) sessionStorage.removeItem(KEPT);
      else sessionStorage.setItem(KEPT, JSON.stringify(typed));
    } catch {
      // This browser stores nothing.
    }
  }

  function putBack({ action, fields }) {
    const form = formOf(action);
    if (!form) return;
    typedIn(form).forEach((field, place) => {
      const [name, value, isOn] = fields[place] ?? [];
      if (name !== field.name) return;
      if (isPicked(field)) field.checked = isOn && field.value === value;
      else field.value = value;
    });
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.setAttribute("role", "status");
    notice.textContent = "This form was not saved, because its session had ended. What you typed is here again: check it and send it.";
    document.getElementById("main").prepend(notice);
  }

  const typed = read();
  const mayWait = SIGNING_IN.test(here) || document.querySelector("[data-typed-waits]");
  if (mayWait) keep(typed && { ...typed, isWaiting: true });
  else if (!typed?.isWaiting) keep(null);
  else if (typed.path === here) {
    keep(null);
    if (typed.user === user) putBack(typed);
  }

  addEventListener("submit", ({ target: form }) => {
    if (form.method !== "post" || SIGNING_IN.test(here)) return;
    const fields = typedIn(form).map((each) => [each.name, each.value, each.checked ?? false]);
    if (fields.length === 0) return;
    keep({ at: Date.now(), user, path: here, action: form.getAttribute("action"), fields });
    // Without this field, the server puts the fields into the address of the page after signing in.
    if ("refilled" in form.dataset && read() && !form.elements.kept) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "kept", value: "yes" }));
    }
  });
})();
