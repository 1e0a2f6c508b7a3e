// Fetches the page again and again, and replaces the sections that have changed: the others keep their place, their
// focus and the parts that a reader has unfolded. The page of runs that have ended has no script: it is loaded whole.
"use strict";
(() => {
  const PAUSE = 2000;  // milliseconds between two looks
  const fault = document.getElementById("fault");

  const shown = new Map();  // the markup of each section as it came, without what a reader has unfolded

  function replaceSections(next) {
    for (const part of next.querySelectorAll("section")) {
      if (shown.get(part.id) === part.innerHTML) continue;
      shown.set(part.id, part.innerHTML);
      document.getElementById(part.id).innerHTML = part.innerHTML;
    }
  }

  async function look() {
    const reply = await fetch(location.href, { cache: "no-cache" });
    const text = await reply.text();
    if (!reply.ok) throw new Error(text);
    const next = new DOMParser().parseFromString(text, "text/html");
    if (!next.querySelector("script")) return location.reload();
    replaceSections(next);
    fault.hidden = true;
  }

  async function lookOften() {
    for (;;) {
      await new Promise(done => setTimeout(done, PAUSE));
      try {
        await look();
      } catch (wrong) {
        const text = "The page is not up to date: " + wrong.message;
        if (fault.textContent !== text) fault.textContent = text;
        fault.hidden = false;
      }
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const part of document.querySelectorAll("section")) shown.set(part.id, part.innerHTML);
    lookOften();
  });
})();
