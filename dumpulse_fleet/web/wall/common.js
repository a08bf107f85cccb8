// What the pages share: words, answers, events and mutes. SPDX-License-Identifier: MIT

export const SEVERITY = ["unwatched", "alive", "pending", "unknown", "late", "out of range",
  "never", "dead", "damaged", "unreachable"];
const PATIENCE = 20_000; // ms for an answer
const TIMES = [[3600, "1 hour"], [14400, "4 hours"], [86400, "1 day"], [604800, "1 week"]];

export const $ = (id) => document.getElementById(id);
export const number = new Intl.NumberFormat("en");
export const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export const slug = (state) => state.replaceAll(" ", "-");

/** A moment, in s of Unix time: without its day if that is today. */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  return date.toDateString() === new Date().toDateString() ? clock.format(date)
    : `${day.format(date)}, ${clock.format(date)}`;
}

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const shape = () => make("i", { className: "shape", ariaHidden: "true" });

/** Seconds in words: coarse for tiles, exact for ages. */
export function duration(seconds, exact = false) {
  const s = Math.max(0, Math.floor(seconds));
  const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"],
    [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, exact ? first + 2 : first + 1)
    .filter(([count], index) => count > 0 || index === 0)
    .map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** Without a password, which the address of the page may have in it. A proxy may have put the page
 * into a folder, so paths begin where the page is. */
export const here = (path) => location.origin + location.pathname.replace(/[^/]*$/, "") + path;

export class NoAnswer extends Error {}

// ---------------------------------------------------------------- who asks
let login = JSON.parse(sessionStorage.getItem("login") || "{}"); // until the tab is closed
let mayChange = false;

const send = (path, { headers = {}, ...more } = {}) => fetch(here(path), { ...more, headers: {
  Accept: "application/json", ...headers,
  ...(login.token && { Authorization: `Bearer ${login.token}` }) } });

function remember(next) {
  login = next;
  sessionStorage.setItem("login", JSON.stringify(login));
}

export async function get(path) {
  try {
    const answer = await send(path, { signal: AbortSignal.timeout(PATIENCE) });
    if (answer.ok) return await answer.json();
    if (answer.status === 401 && login.token) { // the fleet has another one now
      remember({});
      return get(path);
    }
  } catch { /* the network, or what came was no JSON */ }
  throw new NoAnswer(path);
}

/** One log-in for all forms. A user whose password the browser sends needs none. `alertmanager` is
 * the address of its page. */
export function showWho({ you, alertmanager }) {
  if (alertmanager && !$("silences")) {
    $("link").append(" · ", make("a", { id: "silences", href: `${alertmanager}/#/silences`,
      textContent: "silences in Alertmanager" }));
  }
  mayChange = you.may_change;
  if (!$("login")) makeLogin();
  $("mute").hidden = !mayChange;
  $("mute-login").hidden = mayChange;
  setText($("login"), !mayChange ? "log in" : login.token ? `${login.name || "token"}, log out`
    : you.name);
  $("login").disabled = mayChange && !login.token;
  for (const button of document.querySelectorAll(".end")) button.hidden = !mayChange;
}

export const askWho = async () => showWho(await get("api/v1/summary"));

function makeLogin() {
  const field = (text, properties) => make("label", {}, `${text} `, make("input", properties));
  const form = make("form", { method: "dialog" },
    field("your name", { id: "login-name", autocomplete: "username", maxLength: 200 }),
    field("token", { id: "login-token", type: "password", autocomplete: "current-password",
      maxLength: 500, required: true }),
    make("button", { textContent: "Log in" }), make("p", { id: "login-answer", role: "status" }));
  const dialog = make("dialog", { id: "login-form", ariaLabel: "Log in" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    remember({ name: $("login-name").value, token: $("login-token").value });
    await askWho().catch(report);
    setText($("login-answer"), mayChange ? "" : "The fleet does not accept this token.");
    if (mayChange) dialog.close();
  });
  const button = make("button", { id: "login", type: "button" });
  button.addEventListener("click", () => {
    if (!mayChange) dialog.showModal();
    else {
      remember({});
      askWho().catch(report);
    }
  });
  const other = make("button", { id: "mute-login", type: "button",
    textContent: "Log in to acknowledge or mute" });
  other.addEventListener("click", () => dialog.showModal());
  $("link").append(" ", button);
  $("mute").before(other);
  document.body.append(dialog);
}

/** The connection is shown as gone by itself. Anything else is a mistake in a script. */
export function report(error) {
  if (!(error instanceof NoAnswer)) console.error(error);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Events whose words need no kind.
const SPEAKS = ["state", "rebooted", "clock", "restarted", "name", "mute"];

/** One line for one thing: an agent is in trouble because a variable is. `whoOf` says of what an
 * event is. */
export function eventItems(events, whoOf) {
  const key = ({ at, agent, now }) => JSON.stringify([at, agent, now]);
  const told = new Set(events.filter(({ what, variable }) => what === "state" && variable !== null)
    .map(key));
  return events.filter((event) => event.what !== "state" || event.variable !== null
    || !told.has(key(event))).map((event) => {
    const who = whoOf(event);
    const kind = SPEAKS.includes(event.what) ? "" : `${event.what} `;
    const after = event.lasted === null ? "" : ` after ${duration(event.lasted, true)}`;
    return make("li", { className: slug(event.what === "state" ? event.now : "pending") },
      make("time", { textContent: moment(event.at) }), make("span", {}, shape(),
        ` ${who}${who && ": "}${kind}${event.was && `${event.was} → `}${event.now}${after}`));
  });
}

// ---------------------------------------------------------------- mutes and acknowledgements
/** Asks the server to change something, says what came of it, and calls `done`. */
async function change(path, method, body, done) {
  const headers = { "X-Dumpulse-Change": "yes", "Content-Type": "application/json" };
  try {
    const answer = await send(path, { method, headers, body: body && JSON.stringify(body) });
    const said = await answer.json();
    setText($("mute-answer"), answer.ok ? "Done." : `Not done: ${said.error}`);
  } catch {
    setText($("mute-answer"), "Not done: no connection");
  }
  done();
}

/** A line about a mute, with a button that ends it. */
export function muteItem(mute, done) {
  const what = Object.entries(mute.match).map(([key, glob]) => `${key}=${glob}`).join(" ");
  const item = make("li", {}, make("b", { textContent: what }), ` ${
    mute.acknowledges ? "acknowledged" : "muted"}${mute.begins * 1000 > Date.now()
    ? ` from ${moment(mute.begins)}` : ""} until ${moment(mute.ends)}, by ${
    mute.by || "unknown"}${mute.why && `: ${mute.why}`} `);
  const end = make("button", { type: "button", className: "end", hidden: !mayChange,
    textContent: "End", ariaLabel: `End ${what}` });
  end.addEventListener("click", () => change(`api/v1/mutes/${mute.number}`, "DELETE", null, done));
  item.append(end);
  return item;
}

/** Fills the form. `match` says what a new mute is about. */
export function makeMuteForm(match, done) {
  const form = $("mute");
  form.append(
    make("label", {}, "for ", make("select", { id: "mute-time" }, ...TIMES.map(
      ([value, textContent]) => make("option", { value, textContent })))),
    make("label", {}, "because ", make("input", { id: "mute-why", autocomplete: "off",
      maxLength: 200 })),
    make("button", { value: "acknowledge", textContent: "I take care of it" }),
    make("button", { textContent: "Hold back alerts" }),
    make("p", { id: "mute-answer", role: "status" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change("api/v1/mutes", "POST", { match: match(), why: $("mute-why").value,
      seconds: Number($("mute-time").value), ...(login.name && { by: login.name }),
      acknowledges: event.submitter?.value === "acknowledge" }, done);
  });
}
