// The key "/" moves the focus to the search field of the header, except while the user types.
"use strict";

document.addEventListener("keydown", (event) => {
  const search = document.querySelector(".site-search input");
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  if (!search || search.offsetParent === null) return;
  event.preventDefault();
  search.focus();
  search.select();
});
