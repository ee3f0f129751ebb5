// Removes the notice from the address, so that reloading the page, or coming back to it, does not
// show the notice again.
"use strict";

(() => {
  const here = new URL(location.href);
  here.searchParams.delete("notice");
  history.replaceState(history.state, "", here);
})();
