// The columns that the reader has chosen, which this browser keeps: a list whose address says
// nothing of columns is loaded with them, before anything of it is drawn.
"use strict";

{
  const asked = new URLSearchParams(location.search);
  let kept = null;
  try {
    kept = localStorage.getItem("mintscope.columns");
  } catch {
    // This browser keeps nothing.
  }
  if (kept && !asked.has("columns")) {
    asked.set("columns", kept);
    location.replace(`${location.pathname}?${asked}`);
  }
}
