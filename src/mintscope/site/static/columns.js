// This browser stores the columns that the reader has chosen: a list whose address names no columns
// is loaded with these, before anything is drawn.
"use strict";

{
  const asked = new URLSearchParams(location.search);
  let kept = null;
  try {
    kept = localStorage.getItem("mintscope.columns");
  } catch {
    // This browser stores nothing.
  }
  if (kept && !asked.has("columns")) {
    asked.set("columns", kept);
    location.replace(`${location.pathname}?${asked}`);
  }
}
