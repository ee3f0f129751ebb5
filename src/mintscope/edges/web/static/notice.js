// What was just done is said once: to load the page again, or to come back to it, does not say it anew.
"use strict";

(() => {
  const here = new URL(location.href);
  here.searchParams.delete("notice");
  history.replaceState(history.state, "", here);
})();
