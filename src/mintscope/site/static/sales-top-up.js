// Tops up a pasted credit token: shows the pages of the purchase within this page, so that the token
// does not leave it. Links of those pages also open here.
"use strict";

const TopUp = (() => {
  const place = document.getElementById("top-up");
  let token = null;
  let here = ""; // the address of the shown page of the purchase

  // Shows the page of a purchase at *address*, and continues the stored purchase, if there is one.
  async function open(address) {
    const mark = Purchase.kept()?.mark ?? Purchase.markOf(token);
    let page;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      return tell("There is no connection. Nothing was paid.");
    }
    const parts = [page.querySelector(".buying"), page.getElementById("sayings")];
    if (parts.includes(null)) return tell("We cannot answer right now. Nothing was paid.");
    here = address;
    tell("");
    place.querySelector("[data-mark]").textContent = `\u2026${mark}`;
    place.querySelector("[data-buying]").replaceChildren(...parts.map((each) => (
      document.adoptNode(each)
    )));
    place.hidden = false;
    document.getElementById("purchase-title").focus();
    return Purchase.start(token);
  }

  function tell(text) {
    document.getElementById("top-up-error").textContent = text;
    if (text) place.hidden = false;
  }

  function close() {
    if (place === null) return; // nothing is sold here
    token = null;
    Purchase.wipe();
    place.hidden = true;
    place.querySelector("[data-buying]").replaceChildren();
  }

  place?.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const isAgain = link.getAttribute("href") === "";
    if (!isAgain && !link.pathname.startsWith("/buy/")) return;
    event.preventDefault();
    if (!Purchase.isUnderWay()) open(isAgain ? here : `${link.pathname}${link.search}`);
  });

  // A page that is restored from the history was wiped when it was left: reload it if a purchase is
  // stored, so that the purchase continues.
  addEventListener("pageshow", (event) => {
    if (event.persisted && place !== null && Purchase.kept()) location.reload();
  });

  return {
    // Offers to top up *text*. If a stored purchase is not a top-up, opens its page instead.
    begin(text) {
      const kept = Purchase.kept();
      if (kept && kept.into !== "top-up") return location.assign(`/buy/${kept.bundle}`);
      token = text;
      return open(kept ? pageOf(kept) : place.dataset.first);
    },
    // Called after *text* was pasted: continues a top-up of it, or closes one of another credit token.
    shown(text) {
      if (Purchase.isUnderWay()) Purchase.goOn(text);
      else if (text !== token) close();
    },
    close,
    isUnderWay: () => place !== null && Purchase.isUnderWay(),
    resume() {
      const kept = place === null ? null : Purchase.kept();
      if (kept?.into === "top-up") open(pageOf(kept));
    },
  };

  function pageOf({ bundle, asset }) {
    return `/buy/${bundle}?${new URLSearchParams({ asset, into: "top-up" })}`;
  }
})();
