// Remembers the chosen language, searches the contents, and sends requests. Without this file, the
// documentation is complete.
"use strict";

// Select the language that was chosen last on any page.
const LANGUAGE = "docs-language";
const choices = [...document.querySelectorAll(".languages input")];
try {
  const kept = choices.find((each) => each.value === localStorage.getItem(LANGUAGE));
  if (kept) kept.checked = true;
} catch {
  // Without storage, the first language is shown.
}
for (const each of choices) {
  each.addEventListener("change", () => {
    try {
      localStorage.setItem(LANGUAGE, each.value);
    } catch {
      // The choice is not stored.
    }
  });
}

// Scroll the contents so that the current page is in the middle.
const here = document.querySelector(".docs-nav [aria-current]");
const contents = document.querySelector(".docs-nav");
if (here && contents.scrollHeight > contents.clientHeight) {
  contents.scrollTop = here.offsetTop - contents.clientHeight / 2;
}

// Returns whether two words differ by at most one typo: a character added, removed or changed, or
// two adjacent characters swapped.
function isNear(one, other) {
  let start = 0;
  while (start < one.length && one[start] === other[start]) start += 1;
  const mine = one.slice(start);
  const theirs = other.slice(start);
  const swapped = (theirs[1] ?? "") + (theirs[0] ?? "") + theirs.slice(2);
  return [mine, mine.slice(1)].includes(theirs.slice(1)) || [mine, mine.slice(1)].includes(theirs) ||
    mine === swapped;
}

// Returns the words of a text, and the parts of its field names: swinghigh, swing and high for
// swingHigh.
const wordsOf = (text) =>
  `${text} ${text.replace(/([a-z0-9])([A-Z])/g, "$1 $2")}`.toLowerCase().split(/[^a-z0-9]+/);

// Search: the contents list the pages that have every typed word, or a word that begins with it, the
// best first. If there is none, words one typo away count, too.
const find = document.querySelector("[data-find]");
if (find) {
  let words = {};
  let best = null;
  const links = [...document.querySelectorAll(".docs-lists li a")];
  const load = async () => {
    find.removeEventListener("focus", load);
    const answer = await fetch(find.dataset.find);
    if (answer.ok) words = await answer.json();
    narrow();
  };
  const DEFINES = 2; // the page that defines a number comes before pages that have the number
  const TITLE = 3;
  const begins = (word) => (each) => each.startsWith(word);
  const isTypo = (word) => (each) => word.length >= 3 && isNear(word, each);
  const score = (link, wanted, matches) => {
    const path = link.getAttribute("href");
    const title = wordsOf(link.textContent);
    const text = wordsOf(`${path} ${words[path] ?? ""}`);
    const one = (word) => {
      if (title.some(matches(word))) return TITLE;
      return text.some(matches(word)) ? (path === "/docs/indicators" ? DEFINES : 1) : 0;
    };
    return Math.min(...wanted.map(one));
  };
  const narrow = () => {
    const wanted = find.value.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);
    const scored = (matches) => new Map(links.map((link) => [link, score(link, wanted, matches)]));
    let scores = scored(begins);
    if (Math.max(...scores.values()) === 0) scores = scored(isTypo);
    let shown = 0;
    for (const [link, points] of scores) {
      link.parentElement.hidden = points === 0;
      link.parentElement.style.order = wanted.length ? -points : 0;
      if (points > 0) shown += 1;
    }
    best = links.toSorted((one, other) => scores.get(other) - scores.get(one))[0];
    for (const heading of document.querySelectorAll(".docs-lists h2")) {
      const list = heading.nextElementSibling;
      const most = Math.max(...[...list.querySelectorAll("a")].map((each) => scores.get(each)));
      heading.hidden = most === 0;
      for (const part of [heading, list]) part.style.order = wanted.length ? -most : 0;
    }
    document.getElementById("find-none").hidden = shown > 0;
    const status = document.getElementById("find-status");
    const have = shown === 1 ? "page has" : "pages have";
    status.textContent = wanted.length ? `${shown} ${have} it.` : "";
  };
  find.addEventListener("focus", load);
  if (document.activeElement === find) load(); // it has the focus since before this script arrived
  find.addEventListener("input", narrow);
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      find.value = "";
      narrow();
    }
    if (event.key === "Enter") if (best && !best.parentElement.hidden) best.click();
  });
}

// Try it: sends the request of the page with the entered values. The credential is only sent in a
// header of this request.
const BODY_MAX = 100_000;
const form = document.querySelector(".try-form");
if (form) {
  const part = (name) => form.querySelector(name);
  const status = part(".try-status");
  const body = part(".try-body");
  const stop = part("[data-stop]");

  const request = () => {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    const options = { method: form.dataset.method, headers: {}, credentials: "omit" };
    for (const input of form.querySelectorAll("[data-place]")) {
      const text = input.value.trim();
      if (input.dataset.place === "path") {
        path = path.replace(`{${input.name}}`, encodeURIComponent(text));
      } else if (input.dataset.place === "query" && text) {
        query.set(input.name, text);
      } else if (input.dataset.place === "body") {
        options.body = text;
        options.headers["Content-Type"] = "application/json";
      }
    }
    const credential = part("#try-credential")?.value.trim();
    if (credential) options.headers.Authorization = `Bearer ${credential}`;
    return [query.size ? `${path}?${query}` : path, options];
  };

  const pretty = (text) => {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    }
  };

  const read = async (answer) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      if (text.length > BODY_MAX) text = `... ${text.slice(-BODY_MAX)}`;
      if (answer.headers.get("Content-Type")?.startsWith("text/event-stream")) {
        body.textContent = text;
        body.scrollTop = body.scrollHeight;
      }
    }
    body.textContent = pretty(text);
  };

  const send = async (signal) => {
    const [path, options] = request();
    const began = performance.now();
    const answer = await fetch(path, { ...options, signal });
    const took = Math.round(performance.now() - began);
    status.textContent = `${answer.status} ${answer.statusText} after ${took} ms`;
    status.className = `try-status ${answer.ok ? "good" : "bad"}`;
    part(".try-headers").textContent = [...answer.headers]
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n");
    await read(answer);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const trial = new AbortController();
    part(".try-answer").hidden = false;
    body.textContent = "";
    part(".try-headers").textContent = "";
    status.textContent = "Waiting ...";
    stop.hidden = false;
    stop.onclick = () => trial.abort();
    try {
      await send(trial.signal);
    } catch (trouble) {
      const wasStopped = trouble.name === "AbortError";
      status.textContent = wasStopped ? `${status.textContent}; stopped` : `No answer: ${trouble}`;
      if (!wasStopped) status.className = "try-status bad";
    } finally {
      stop.hidden = true;
    }
  });
}
