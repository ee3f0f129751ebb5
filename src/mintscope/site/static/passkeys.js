// Passkeys: passes the request of a form to the device, and sends the device's answer with the form.
//   <form data-passkey="create" or "get" data-question="JSON of WebAuthn">, with a field `answer`
//   data-suggested: the browser also suggests passkeys in the field of the e-mail address
"use strict";

const CANCELLED = "That was cancelled, or took too long. Try again.";
const WRONG_PLACE = "Passkeys belong to another address of this site: open it by its name.";
const KNOWN = "This device has a passkey of this account already.";

const bytesOf = (text) => {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (sign) => sign.charCodeAt(0));
};
const textOf = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

function prepared(question) {
  const named = (each) => ({ ...each, id: bytesOf(each.id) });
  const options = { ...question, challenge: bytesOf(question.challenge) };
  if (options.user) options.user = named(options.user);
  options.excludeCredentials &&= options.excludeCredentials.map(named);
  options.allowCredentials &&= options.allowCredentials.map(named);
  return options;
}

function told(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = textOf(credential.response[name]);
  }
  return JSON.stringify({
    id: credential.id,
    rawId: textOf(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: credential.getClientExtensionResults(),
  });
}

function problemOf(error) {
  if (error.name === "SecurityError") return WRONG_PLACE;
  return error.name === "InvalidStateError" ? KNOWN : CANCELLED;
}

async function send(form, options) {
  const publicKey = prepared(JSON.parse(form.dataset.question));
  const answer = await navigator.credentials[form.dataset.passkey]({ publicKey, ...options });
  form.elements.answer.value = told(answer);
  form.submit();
}

let suggestion = null;

async function suggest(form) {
  if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
  suggestion = new AbortController();
  try {
    await send(form, { mediation: "conditional", signal: suggestion.signal });
  } catch {
    // The user has not asked for anything, so no error is shown; the button shows its errors.
  }
}

async function ask(form) {
  const problem = form.querySelector("[data-passkey-problem]");
  const button = form.querySelector("button");
  problem.hidden = true;
  button.disabled = true;
  suggestion?.abort(); // a browser asks one question at a time
  try {
    await send(form, {});
  } catch (error) {
    problem.textContent = problemOf(error);
    problem.hidden = false;
    button.disabled = false;
  }
}

if (window.PublicKeyCredential) {
  for (const element of document.querySelectorAll("[data-with-passkey]")) element.hidden = false;
  for (const element of document.querySelectorAll("[data-without-passkey]")) element.hidden = true;
  for (const form of document.querySelectorAll("[data-passkey]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.reportValidity()) ask(form);
    });
    if ("suggested" in form.dataset) suggest(form);
  }
}
