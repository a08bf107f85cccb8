// The page of events and mutes. SPDX-License-Identifier: MIT

import { $, SEVERITY, askWho, clock, eventItems, get, make, makeMuteForm, muteItem, report,
  setText } from "./common.js";

const PAGE = 100; // events
const PAUSE = 5000; // ms between two looks
let most = PAGE;
let looking = 0; // each look has a number; an old one stops
const values = new Map([["site", new Set()], ["name", new Set()]]); // by label, for who types

async function look() {
  const mine = ++looking;
  try {
    const query = new URLSearchParams({ limit: most, agent: $("agent").value,
      site: $("site").value });
    if ($("state").value) query.set("state", $("state").value);
    if ($("since").value) query.set("since", Date.now() / 1000 - Number($("since").value));
    const [{ events }, { mutes }] = await Promise.all([get(`api/v1/events?${query}`),
      get("api/v1/mutes")]);
    if (mine !== looking) return;
    $("events").replaceChildren(...eventItems(events, (event) => [event.agent
      || event.site || "the fleet", event.name || (event.variable ?? "")].join(" ").trim()));
    $("older").hidden = events.length < most || most >= 10 * PAGE;
    if (!events.length) $("events").append(make("li", { textContent: "none" }));
    $("mutes").replaceChildren(...mutes.map((mute) => muteItem(mute, look)));
    if (!mutes.length) $("mutes").append(make("li", { textContent: "none" }));
    document.body.className = "log live";
    setText($("link-words"), `as of ${clock.format(Date.now())}`);
  } catch (error) {
    report(error);
    document.body.className = "log stale"; // the time of the last answer stays
  }
  if (mine === looking) setTimeout(() => mine === looking && look(), PAUSE);
}

async function fillChoices() {
  const { agents } = await get("api/v1/agents?limit=1000");
  await askWho();
  for (const agent of agents) {
    for (const [key, text] of Object.entries({ ...agent.labels, site: agent.site,
      name: agent.name })) values.set(key, (values.get(key) || new Set()).add(text));
  }
  $("label").replaceChildren(...[...values.keys()].map((key) => make("option", {
    textContent: key })));
  suggest();
}

function suggest() {
  const known = [...values.get($("label").value) || []].filter(Boolean).sort();
  $("globs").replaceChildren(...known.map((value) => make("option", { value })));
}

makeMuteForm(() => ({ [$("label").value]: $("glob").value }), look);
$("label").addEventListener("change", suggest);
$("state").append(...SEVERITY.slice(1).map((state) => make("option", { textContent: state })));
$("which").addEventListener("input", look);
$("which").addEventListener("submit", (event) => event.preventDefault());
$("older").addEventListener("click", () => {
  most = Math.min(10 * PAGE, 2 * most);
  look();
});
fillChoices().catch(report);
look();
