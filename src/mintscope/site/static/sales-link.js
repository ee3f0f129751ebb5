// Links a wallet to the account: the wallet signs a text of the server, and a form sends the result.
"use strict";

(() => {
  const place = document.getElementById("link");
  if (!place) return; // the limit of linked wallets is reached
  const form = place.querySelector("form");
  const error = document.getElementById("link-error");
  const NO_TEXT = "The service did not answer with a text to sign. Wait a moment, and try again.";
  const NOT_SIGNED = "Your wallet did not sign the text, so it was not linked.";

  async function challengeFor(wallet) {
    const body = new URLSearchParams({ csrf: form.elements.csrf.value, wallet });
    const answer = await fetch(form.dataset.challenge, { method: "POST", body })
      .catch(() => { throw new Error(NO_TEXT); });
    if (answer.redirected) location.reload(); // the session has ended: the user signs in again
    if (answer.redirected || !answer.ok) throw new Error(NO_TEXT);
    return answer.text();
  }

  async function link(wallet) {
    error.textContent = "";
    try {
      Object.entries(await Wallets.signText(wallet, challengeFor)).forEach(([name, value]) => {
        form.elements[name].value = value;
      });
    } catch (reason) {
      error.textContent = reason?.message === NO_TEXT ? NO_TEXT : NOT_SIGNED;
      return;
    }
    form.requestSubmit();
  }

  Wallets.watch(() => {
    const signing = Wallets.signingTexts();
    const list = place.querySelector("[data-wallets]");
    list.replaceChildren(...signing.map((wallet) => Wallets.item(wallet, () => link(wallet))));
    list.hidden = signing.length === 0;
    place.querySelector("[data-no-wallet]").hidden = signing.length > 0;
  });
})();
