// A notice is shown once: loading the page again, or coming back to it, does not show it again.
"use strict";

(() => {
  const here = new URL(location.href);
  here.searchParams.delete("notice");
  history.replaceState(history.state, "", here);
})();
