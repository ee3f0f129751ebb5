// The documentation without this file is whole: this remembers a language, finds, and tries.
"use strict";

// The language that was chosen last, on every page.
const LANGUAGE = "docs-language";
const choices = [...document.querySelectorAll(".languages input")];
try {
  const kept = choices.find((each) => each.value === localStorage.getItem(LANGUAGE));
  if (kept) kept.checked = true;
} catch {
  // Without storage the first language is shown.
}
for (const each of choices) {
  each.addEventListener("change", () => {
    try {
      localStorage.setItem(LANGUAGE, each.value);
    } catch {
      // It is remembered nowhere.
    }
  });
}

// The page that is shown stands in the middle of the contents.
const here = document.querySelector(".docs-nav [aria-current]");
const contents = document.querySelector(".docs-nav");
if (here && contents.scrollHeight > contents.clientHeight) {
  contents.scrollTop = here.offsetTop - contents.clientHeight / 2;
}

// Find: the contents keep what has every word that was typed.
const find = document.querySelector("[data-find]");
if (find) {
  let words = {};
  const links = [...document.querySelectorAll(".docs-lists li a")];
  const load = async () => {
    find.removeEventListener("focus", load);
    const answer = await fetch(find.dataset.find);
    if (answer.ok) words = await answer.json();
    narrow();
  };
  const narrow = () => {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const link of links) {
      const path = link.getAttribute("href");
      const text = `${link.textContent} ${path} ${words[path] ?? ""}`.toLowerCase();
      link.parentElement.hidden = !wanted.every((word) => text.includes(word));
      if (!link.parentElement.hidden) shown += 1;
    }
    for (const heading of document.querySelectorAll(".docs-lists h2")) {
      heading.hidden = !heading.nextElementSibling.querySelector("li:not([hidden])");
    }
    document.getElementById("find-none").hidden = shown > 0;
    const status = document.getElementById("find-status");
    status.textContent = wanted.length ? `${shown} pages have it.` : "";
  };
  find.addEventListener("focus", load);
  find.addEventListener("input", narrow);
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      find.value = "";
      narrow();
    }
    if (event.key === "Enter") document.querySelector(".docs-lists li:not([hidden]) a")?.click();
  });
}

// Try it: the request of the page, sent with what was typed. The credential goes into a header of
// this one request, and nowhere else.
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
