// Shows times in the reader's own zone, with UTC on hover; without this file, they are in UTC.
//   <time datetime="2026-11-22T06:13:20Z" data-moment>22 Nov 2026, 06:13 UTC</time>
// becomes 22 Nov 2026, 07:13 CET, and the old text becomes its title.  The value of data-moment is a
// key of FORMS.  A <time> without data-moment ("3 minutes ago") keeps its text, and its title gets
// both zones.  Times that are added to the page later are converted, too.
"use strict";

const DATE = { day: "numeric", month: "short", year: "numeric" };
const MINUTES = { hour: "2-digit", minute: "2-digit" };
const ZONE = { timeZoneName: "short" };
const FORMS = {
  "": { ...DATE, ...MINUTES, ...ZONE },
  seconds: { ...DATE, ...MINUTES, second: "2-digit", ...ZONE },
  clock: { ...MINUTES, second: "2-digit" },
  day: DATE,
};
const writers = new Map();

function written(form, at) {
  if (!writers.has(form)) writers.set(form, new Intl.DateTimeFormat("en-GB", FORMS[form]));
  return writers.get(form).format(at);
}

function localize(element) {
  const at = new Date(element.dateTime);
  if (element.dataset.local || Number.isNaN(at.getTime())) return;
  element.dataset.local = "yes";
  if (at.getTimezoneOffset() === 0) return; // the reader's zone is UTC
  const form = element.dataset.moment;
  if (form === undefined) {
    if (element.title) element.title = `${written("", at)}; ${element.title}`;
  } else {
    element.title ||= element.textContent.trim();
    element.textContent = written(Object.hasOwn(FORMS, form) ? form : "", at);
  }
}

function localizeIn(root) {
  if (root.matches?.("time[datetime]")) localize(root);
  for (const element of root.querySelectorAll?.("time[datetime]") ?? []) localize(element);
}

localizeIn(document);
new MutationObserver((changes) => {
  for (const change of changes) change.addedNodes.forEach(localizeIn);
}).observe(document.body, { childList: true, subtree: true });

// Copies the full number in place of the shortened one.
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  let text = selection.toString();
  let isWhole = true;
  for (const shown of document.querySelectorAll(".number[title] > [aria-hidden]")) {
    if (!selection.containsNode(shown, true) || !text.includes(shown.textContent)) continue;
    text = text.replace(shown.textContent, shown.parentElement.title);
    isWhole = false;
  }
  if (isWhole) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
});
