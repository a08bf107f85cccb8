// The wall: every agent a tile, the worst first, live. SPDX-License-Identifier: MIT
//
// Names and labels come from anywhere, so all text goes through textContent. What arrives is
// gathered, and drawn once a frame: only tiles that have changed are touched. What is shown can be
// found again by the address of the page.

import { $, SEVERITY, clock, duration, eventItems, get, make, makeMuteForm, moment,
  muteItem, number, report, setText, shape, showWho, slug } from "./common.js";

const phone = matchMedia("(max-width: 640px)"); // see wall.css
const CHIPS = [...[...SEVERITY].reverse(), "acknowledged", "muted"];
const MUTE = ["unreachable", "damaged"];  // nothing is known of the variables of such an agent
const FIRST_BAD = SEVERITY.indexOf("unknown");
const FEW = 30; // agents that need a look, and have large tiles on a large screen
const LONGEST_NAME = 26; // characters of a name that a good tile has room for
const DOTS_FROM = 300; // agents from which good ones are dots
const PAUSE = 1000; // ms between two looks for changes
const SILENCE = 7000; // ms without an answer
const SLOW_TICK = 5000; // ms between two looks at "12 min"
const QUIET = 10_000; // ms between two announcements to who listens
const LARGE = 200; // agents of a card that takes the whole width of a large screen,
const LARGE_BAD = 8; // or so many that need a look
const MANY = 60; // bad agents of a card that are dots, too, so that other cards stay in sight

const collator = new Intl.Collator(undefined, { numeric: true });
const agents = new Map(); // by name: the agent as the server says it, with its tile
const cards = new Map(); // by site, in the order of these names
let chosen = { q: "", states: new Set(), agent: "" };
let period = 10; // s: the shortest of all agents
let clockAhead = 0; // ms by which the server's clock is ahead of this one
let heardAt = 0; // s, Unix time: the newest report of all agents
let trouble = "";
let lastMessage = 0; // performance.now()
let lastAt = 0; // the same by the clock of this computer
let loading = 0; // each load has a number; an old one stops
const dirty = new Map(); // agents that have changed, until the next frame
let dots = false; // whether good tiles are dots
let folded = false; // whether good tiles are not shown, but the head of their card counts them

const severity = (agent) => SEVERITY.indexOf(agent.state);
const serverNow = () => (Date.now() + clockAhead) / 1000;

// ---------------------------------------------------------------- the address of the page
function readAddress() {
  const query = new URLSearchParams(location.search);
  chosen = {
    q: query.get("q") || "", agent: query.get("agent") || "",
    states: new Set(query.getAll("state").filter((state) => CHIPS.includes(state))),
  };
  $("search").value = chosen.q;
}

/** `step` is one that the browser can go back. */
function writeAddress(step = false) {
  const query = new URLSearchParams();
  if (chosen.q) query.set("q", chosen.q);
  for (const state of chosen.states) query.append("state", state);
  if (chosen.agent) query.set("agent", chosen.agent);
  const text = query.toString();
  history[step ? "pushState" : "replaceState"](null, "", text ? `?${text}` : location.pathname);
}

// ---------------------------------------------------------------- what comes from the server
/** Everything anew, then what changes. */
async function load() {
  const mine = ++loading;
  try {
    const found = [];
    let seen = "";
    for (let total = 1; found.length < total;) {
      const page = await get(`api/v1/agents?sort=name&limit=1000&offset=${found.length}`);
      if (mine !== loading) return;
      if (seen && seen.split(".")[0] !== page.version.split(".")[0]) return load();
      seen ||= page.version; // the oldest: what has changed since comes again
      total = page.total;
      if (!page.agents.length) break;
      found.push(...page.agents);
    }
    const summary = await get("api/v1/summary");
    if (mine !== loading) return;
    period = summary.period;
    showWho(summary);
    note(summary);
    agents.clear();
    for (const agent of found) agents.set(agent.name, agent);
    drawAll();
    document.body.classList.remove("waiting");
    performance.clearMeasures("load");
    performance.measure("load", { start: 0 });
    listen(seen);
    if (chosen.agent) open(chosen.agent, false);
  } catch (error) {
    report(error);
    if (mine === loading) setTimeout(() => mine === loading && load(), 3000);
  }
}

/** Until the next load. An answer that does not come is asked for again. */
async function listen(seen) {
  const mine = loading;
  for (let next = seen; ;) {
    await new Promise((done) => { setTimeout(done, PAUSE); });
    if (mine !== loading) return;
    try {
      const message = await get(`api/v1/changes?seen=${encodeURIComponent(next)}`);
      if (mine !== loading) return;
      if (message.reset) {
        load();
        return;
      }
      note(message);
      next = message.version;
      for (const agent of message.agents) dirty.set(agent.name, agent);
      if (message.agents.length) schedule();
    } catch (error) {
      report(error);
    }
  }
}

function note(message) {
  clockAhead = message.now * 1000 - Date.now();
  heardAt = message.heard_at || 0;
  trouble = message.trouble;
  lastMessage = performance.now();
  lastAt = Date.now();
  showLink();
}

/** Whether what is shown is true now. What is read out changes only if the trouble does. */
function showLink() {
  const silence = performance.now() - lastMessage;
  const gone = silence > SILENCE;
  const silent = serverNow() - heardAt;
  const blind = agents.size > 0 && silent > Math.max(30, 3 * period);
  let alarm = trouble;
  let age = 0;
  if (gone) {
    age = lastMessage && silence / 1000;
    alarm = lastAt ? `No connection to the fleet since ${clock.format(lastAt)}.`
      : "No connection to the fleet. Trying again …";
  } else if (blind) {
    age = heardAt && silent;
    alarm = `${trouble ? `${trouble}. ` : ""}No agent has answered ${
      heardAt ? `since ${moment(heardAt)}` : "yet"}.`;
  }
  document.body.classList.toggle("stale", gone || blind);
  document.body.classList.toggle("live", !gone && !blind);
  setText($("link-words"), gone ? "no connection" : blind ? "no news"
    : `live, ${clock.format(Date.now() + clockAhead)}`);
  $("alarm").hidden = !alarm;
  setText($("alarm-words"), alarm);
  setText($("alarm-age"), age ? `What you see is ${duration(age, true)} old.` : "");
  showHeadline();
}

// ---------------------------------------------------------------- tiles
/** What is new comes first, then what somebody takes care of, then what is muted. */
const rank = (agent) => severity(agent) - (agent.muted ? 20 : knownOf(agent) ? 10
  : agent.cause ? 5 : 0);
/** Who takes care of its trouble. */
const knownOf = (agent) => isBad(agent) && agent.acknowledged;
const isBad = (agent) => severity(agent) >= FIRST_BAD && !agent.cause;
/** How much is wrong: agents behind it, and its variables. */
const weight = (agent) => ["late", "out of range", "never", "dead"].reduce(
  (sum, state) => sum + (agent.counts[state] || 0), 64 * (agent.behind || 0));
const before = (a, b) => rank(b) - rank(a) || weight(b) - weight(a) || byName(a, b);
/** pump-2 is before pump-10. */
const sortKey = (agent) => (agent.sortKey
  ||= `${agent.name.replace(/\d+/g, (digits) => digits.padStart(12, "0"))} ${agent.name}`);
const byName = (a, b) => (sortKey(a) < sortKey(b) ? -1 : 1);

/** The highest of its parents that does not answer, if it does not, either. */
function findCause(agent) {
  let cause = null;
  const way = new Set([agent]);
  for (let above = agents.get(agent.parent); above && !way.has(above);
    above = agents.get(above.parent)) {
    way.add(above);
    if (above.state === "unreachable") cause = above;
  }
  return cause;
}

/** Finds which agents are behind which dead ones. `touch` gets those of which this changes. */
function explain(touch = () => {}) {
  const causes = new Map();
  const behind = new Map();
  for (const agent of agents.values()) {
    const cause = agent.state === "unreachable" && agent.parent ? findCause(agent) : null;
    causes.set(agent, cause);
    if (cause) behind.set(cause, (behind.get(cause) || 0) + 1);
  }
  for (const [agent, cause] of causes) {
    const count = behind.get(agent) || 0;
    if (agent.cause === cause && agent.behind === count) continue;
    touch(agent);
    agent.cause = cause;
    agent.behind = count;
  }
}

function wordsOf(agent) {
  agent.words ||= [agent.name, agent.site, agent.address,
    ...Object.entries(agent.labels).map(([key, text]) => `${key}=${text}`)]
    .join(" ").toLowerCase();
  return agent.words;
}

function fits(agent) {
  const { states } = chosen;
  const marked = (agent.muted && states.has("muted"))
    || (knownOf(agent) && states.has("acknowledged"));
  if (states.size && !states.has(agent.state) && !marked) return false;
  return matches(agent);
}

const matches = (agent) => chosen.parts.every((part) => wordsOf(agent).includes(part));

function lineOf(agent) {
  const bad = ["dead", "never", "out of range", "late"].filter((state) => agent.counts[state]);
  const more = bad.reduce((sum, state) => sum + agent.counts[state], -1);
  const counts = MUTE.includes(agent.state) || !agent.worst ? agent.state
    : `${agent.worst}${agent.not_authenticated.includes(agent.worst) ? " (not authenticated)"
      : ""} ${bad[0] === "never" ? "never heard" : bad[0]}${more ? ` + ${more}` : ""}`;
  const since = agent.since ? ` · ${duration(serverNow() - agent.since)}` : "";
  const known = knownOf(agent) ? `✓ ${agent.acknowledged.by} · ` : "";
  const behind = agent.cause ? ` · behind ${agent.cause.name}`
    : agent.behind ? ` · ${number.format(agent.behind)} behind it` : "";
  return `${agent.muted ? "muted · " : ""}${known}${counts}${behind}${since}`;
}

/** All of a tile but its place. A dot is one element: thousands of more take their time. */
function drawTile(agent) {
  const { tile } = agent;
  const kind = `tile ${slug(agent.state)}${agent.muted ? " muted" : ""}${
    knownOf(agent) ? " known" : ""}${agent.cause ? " behind" : ""}`;
  if (tile.kind !== kind) tile.className = tile.kind = kind;
  const form = isBad(agent) ? "bad" : dots ? "dot" : "name";
  if (tile.form !== form) {
    tile.form = form;
    tile.replaceChildren(...(form === "dot" ? []
      : [shape(), make("b", { textContent: agent.name })]));
    if (form === "bad") {
      tile.lineShown = make("span");
      tile.append(" ", tile.lineShown);
    }
    tile.line = "";
  }
  // Of a good one nobody needs to hear since when, so its words need not change as time passes.
  const line = form === "bad" ? lineOf(agent) : `${agent.muted ? "muted · " : ""}${agent.state}${
    agent.cause ? ` behind ${agent.cause.name}` : ""}`;
  if (tile.line !== line) {
    tile.line = line;
    tile.ariaLabel = `${agent.name} ${line}`; // a dot shows no words
    if (form === "bad") tile.lineShown.textContent = line;
  }
  const selected = agent.name === chosen.agent;
  if (selected !== (tile.ariaSelected === "true")) tile.ariaSelected = selected;
}

/** The half of a card where an agent belongs now. */
const halfOf = (agent) => cards.get(agent.site)[isBad(agent) ? "bad" : "good"];

function makeCard(site) {
  const title = site || "without a site";
  const half = (className, compare) => ({ list: [], compare,
    tiles: make("div", { className, role: "presentation" }) });
  const card = {
    bad: half("bad", before), good: half("good", byName), worst: -1, wrong: 0, share: 0,
    counts: make("span"),
    health: make("i", { className: "health" }), head: make("div", { ariaHidden: "true" }),
    element: make("section", { className: "card", role: "group", ariaLabel: title }),
  };
  card.head.append(shape(), make("b", { textContent: title }), card.health, card.counts);
  card.head.addEventListener("click", () => {
    card.opened = !card.opened;
    drawCard(card);
  });
  card.element.append(card.head, card.bad.tiles, card.good.tiles);
  cards.set(site, card);
}

/** Where an agent belongs in a sorted list. */
function search(list, agent, compare) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(list[middle], agent) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Puts an agent that is in no list, and its tile, where its state belongs. */
function place(agent) {
  const half = halfOf(agent);
  const index = search(half.list, agent, half.compare);
  const next = half.list[index]?.tile || null;
  half.list.splice(index, 0, agent);
  if (agent.tile.parentNode === half.tiles && agent.tile.nextSibling === next) return;
  const focused = document.activeElement === agent.tile;
  half.tiles.insertBefore(agent.tile, next);
  if (focused) agent.tile.focus({ preventScroll: true });
}

/** All but its tiles. Its bar and its counts are of all that the search finds. Returns whether its
 * place among the cards may change. */
function drawCard(card) {
  const counts = new Map();
  const was = card.worst + card.wrong / 1e9;
  let all = 0;
  const shown = { bad: 0, good: 0 };
  let kind = "";
  card.worst = card.wrong = 0;
  for (const half of ["bad", "good"]) {
    for (const agent of card[half].list) {
      if (!matches(agent)) continue;
      counts.set(agent.state, (counts.get(agent.state) || 0) + 1);
      all += 1;
      if (agent.tile.hidden) continue;
      shown[half] += 1;
      card.wrong += !agent.muted && severity(agent) >= FIRST_BAD;
      const worse = half === "bad" || agent.cause ? Math.max(1, rank(agent)) : 0; // 1: it is muted
      if (worse > card.worst) {
        card.worst = worse;
        kind = `bad-card ${slug(agent.state)} `;
      }
    }
  }
  card.share = card.wrong / all;
  const marks = { opened: card.opened, large: shown.bad > LARGE_BAD || shown.good > LARGE,
    long: shown.good > MANY, many: dots && shown.bad > MANY };
  const classes = `card ${kind}${Object.keys(marks).filter((name) => marks[name]).join(" ")}`;
  if (card.element.className !== classes) card.element.className = classes;
  card.element.hidden = !(shown.bad + shown.good);
  const found = [...SEVERITY].reverse().filter((state) => counts.has(state));
  const text = found.map((state) => `${number.format(counts.get(state))} ${state}`).join(", ");
  if (card.counts.textContent !== text) {
    card.counts.textContent = text;
    card.health.replaceChildren(...found.map((state) => make("i", { className: slug(state) })));
    found.forEach((state, index) => {
      card.health.children[index].style.flexGrow = counts.get(state);
    });
  }
  return card.worst + card.wrong / 1e9 !== was;
}

/** The worst first; of the same state, where more is wrong. An element that moves would lose the
 * focus. */
function sortCards() {
  const sorted = [...cards.values()].sort((a, b) => b.worst - a.worst || b.wrong - a.wrong
    || b.share - a.share);
  const focused = document.activeElement;
  let next = $("wall").firstElementChild;
  for (const { element } of sorted) {
    if (element !== next && element === next?.nextElementSibling) { // `next` goes down
      next.remove();
      next = element;
    }
    if (element === next) next = next.nextElementSibling;
    else $("wall").insertBefore(element, next);
  }
  if (focused?.agent && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

/** Anew, after a load, or by something else. */
function drawAll() {
  folded = phone.matches;
  dots = agents.size > DOTS_FROM;
  cards.clear();
  explain();
  [...new Set([...agents.values()].map(({ site }) => site))].sort(
    (a, b) => (a === "") - (b === "") || collator.compare(a, b)).forEach(makeCard);
  for (const agent of agents.values()) {
    agent.tile ||= make("div", { tabIndex: -1, role: "option", agent: agent.name });
    drawTile(agent);
    halfOf(agent).list.push(agent);
  }
  for (const { bad, good } of cards.values()) {
    for (const { tiles, list, compare } of [bad, good]) {
      tiles.append(...list.sort(compare).map(({ tile }) => tile));
    }
  }
  $("wall").replaceChildren();
  const lengths = [...agents.keys()].map((name) => name.length).sort((a, b) => a - b);
  const usual = lengths[Math.floor(lengths.length * 0.95)] || 0; // a few may be cut off
  $("wall").style.setProperty("--name", `${Math.min(usual, LONGEST_NAME)}ch`);
  $("wall").classList.toggle("dots", dots);
  $("wall").classList.toggle("names", !dots);
  $("wall").classList.toggle("folded", folded);
  filter();
}

/** Shows what fits the choices. */
function filter() {
  chosen.parts = chosen.q.toLowerCase().split(/\s+/).filter(Boolean);
  for (const agent of agents.values()) agent.tile.hidden = !fits(agent);
  for (const card of cards.values()) drawCard(card);
  sortCards();
  drawSums();
  keepOneReachable();
}

/** A page in the background gets no frames, but its title shall be true. */
function schedule() {
  if (schedule.timer) return;
  const draw = () => {
    clearTimeout(schedule.timer);
    cancelAnimationFrame(schedule.frame);
    schedule.timer = 0;
    drawChanges();
  };
  schedule.timer = setTimeout(draw, 2000);
  schedule.frame = requestAnimationFrame(draw);
}

function drawChanges() {
  const touched = new Set();
  const changed = new Map(); // agents, and how they were
  const touch = (agent) => changed.has(agent) || changed.set(agent, { rank: rank(agent),
    weight: weight(agent), half: halfOf(agent) });
  for (const [name, changes] of dirty) {
    const agent = agents.get(name);
    if (!agent) continue;
    touch(agent);
    Object.assign(agent, changes);
  }
  explain(touch);
  // The lists are sorted, and can be searched, only without the agents that move.
  const moved = [...changed.keys()].filter((agent) => changed.get(agent).rank !== rank(agent)
    || changed.get(agent).weight !== weight(agent));
  for (const agent of moved) {
    const { list } = changed.get(agent).half;
    list.splice(list.indexOf(agent), 1);
  }
  moved.forEach(place);
  for (const agent of changed.keys()) {
    agent.tile.hidden = !fits(agent);
    drawTile(agent);
    touched.add(cards.get(agent.site));
  }
  dirty.clear();
  if ([...touched].map(drawCard).includes(true)) sortCards();
  drawSums();
  keepOneReachable();
  if (chosen.agent) showHead(agents.get(chosen.agent));
}

/** Times on tiles pass, too. */
function drawTimes() {
  for (const { bad } of cards.values()) bad.list.forEach(drawTile);
}

// ---------------------------------------------------------------- sums, choices, search
const chips = new Map();
let sums = "Reading the fleet …"; // the headline

function drawSums() {
  const counts = new Map(CHIPS.map((state) => [state, 0]));
  const count = (state, more) => counts.set(state, counts.get(state) + more);
  let bad = 0;
  let shown = 0;
  let found = 0; // by the search; chips say what they would show of these
  let behind = 0;
  const causes = new Set();
  for (const agent of agents.values()) {
    shown += !agent.tile.hidden;
    if (!matches(agent)) continue;
    found += 1;
    count(agent.state, 1);
    count("muted", agent.muted);
    count("acknowledged", Boolean(knownOf(agent)));
    bad += isBad(agent) && rank(agent) >= 0;
    behind += Boolean(agent.cause);
    if (agent.cause) causes.add(agent.cause.name);
  }
  const total = number.format(found);
  const all = counts.get("alive") === found;
  const which = chosen.parts.length ? ` “${chosen.q.trim()}”` : "";
  sums = !agents.size ? "No agents are configured" : !found ? `No agent fits${which}`
    : (bad ? `${number.format(bad)} of ${total} agents need${bad === 1 ? "s" : ""} a look`
      : all ? `${found === 1 ? "The agent is" : `All ${total} agents are`} alive`
        : `${total} agents, none in trouble`) + (behind ? `, ${number.format(behind)} behind ${
      causes.size === 1 ? [...causes][0] : `${causes.size} others`}` : "") + (which && `:${which}`);
  showHeadline();
  document.title = bad ? `(${bad}) Dumpulse fleet` : "Dumpulse fleet";
  for (const state of CHIPS) {
    const chip = chips.get(state) || makeChip(state);
    chip.hidden = !counts.get(state) && !chosen.states.has(state);
    setText(chip.count, number.format(counts.get(state)));
    chip.ariaPressed = chosen.states.has(state);
  }
  $("wall").classList.toggle("few", bad <= FEW);
  $("wall").classList.toggle("trouble", bad > 0 && !chosen.states.size);
  $("nothing").hidden = shown > 0 || !agents.size;
  $("none").hidden = agents.size > 0;
  $("wall").hidden = !shown;
}

/** Without a connection, it says how old what it says is. */
function showHeadline() {
  const silence = performance.now() - lastMessage;
  setText($("headline"), silence > SILENCE && lastMessage
    ? `Last known, ${duration(silence / 1000)} ago: ${sums}` : sums);
}

function makeChip(state) {
  const chip = make("button", { type: "button", className: SEVERITY.includes(state) ? slug(state)
    : `${state}-state` });
  chip.count = make("b");
  chip.append(shape(), chip.count, ` ${state}`);
  chip.addEventListener("click", () => {
    if (!chosen.states.delete(state)) chosen.states.add(state);
    choose(filter);
  });
  chips.set(state, chip);
  $("states").append(chip);
  return chip;
}

function choose(draw) {
  writeAddress();
  draw();
}

let announced = "";
function announce() {
  const text = $("headline").textContent;
  if (text !== announced) $("announce").textContent = announced = text;
}

// ---------------------------------------------------------------- keys
/** One tile can be reached by Tab, and the arrows move from it. */
let reachable = null;
function keepOneReachable(wanted) {
  const next = wanted || (reachable?.isConnected && !reachable.hidden ? reachable
    : visibleTiles()[0]);
  if (reachable && reachable !== next) reachable.tabIndex = -1;
  reachable = next;
  if (next) next.tabIndex = 0;
}

function visibleTiles() {
  const where = folded ? ":is(.bad, .opened .good) " : "";
  return $("wall").querySelectorAll(`${where}.tile:not([hidden])`);
}

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

function step(tile, key) {
  const tiles = [...visibleTiles()];
  const here = tiles.indexOf(tile);
  if (key === "Home") return tiles[0];
  if (key === "End") return tiles.at(-1);
  if (key === "ArrowLeft") return tiles[here - 1];
  if (key === "ArrowRight") return tiles[here + 1];
  const way = key === "ArrowUp" ? -1 : 1;
  const box = tile.getBoundingClientRect();
  const middle = (box.left + box.right) / 2;
  let best = null;
  let nearest = Infinity;
  let row = null;
  for (let index = here + way; tiles[index]; index += way) {
    const other = tiles[index].getBoundingClientRect();
    if (Math.abs(other.top - box.top) < 2) continue;
    row ??= other.top;
    if (Math.abs(other.top - row) > 2) break;
    const distance = Math.abs((other.left + other.right) / 2 - middle);
    if (distance < nearest) [best, nearest] = [tiles[index], distance];
  }
  return best;
}

function focusTile(tile) {
  keepOneReachable(tile);
  tile.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("dialog")) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $("search").focus();
    $("search").select();
  } else if (event.key === "Escape") {
    if (event.target === $("search") && $("search").value) {
      $("search").value = chosen.q = "";
      choose(filter);
    } else if (!$("panel").hidden) close();
    else if (event.target === $("search")) $("search").blur();
  }
});

$("wall").addEventListener("keydown", (event) => {
  const tile = event.target.closest(".tile");
  if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    open(tile.agent);
  } else if (MOVES.includes(event.key)) {
    event.preventDefault();
    const next = step(tile, event.key);
    if (next) focusTile(next);
  }
});

$("wall").addEventListener("pointerover", (event) => {
  const tile = event.target.closest(".tile");
  if (tile) tile.title = `${tile.agent}: ${lineOf(agents.get(tile.agent))}`;
});

$("wall").addEventListener("click", (event) => {
  const tile = event.target.closest(".tile");
  if (tile) {
    keepOneReachable(tile);
    open(tile.agent);
  }
});

// ---------------------------------------------------------------- one agent
let shown = null; // the agent in the panel, as the server says it
let showing = 0;
let everything = false; // also variables that nobody watches and that were never heard
const rows = new Map(); // of the table, by variable

function open(name, focus = true) {
  if (shown?.name !== name) {
    everything = false;
    shown = null;
    for (const id of ["facts", "uptime", "events", "mutes"]) $(id).replaceChildren();
    $("variables").tBodies[0].replaceChildren();
    rows.clear();
    $("mute-answer").textContent = "";
  }
  const old = chosen.agent;
  chosen.agent = name;
  if (old !== name) writeAddress(!old);
  for (const each of [old, name]) if (agents.has(each)) drawTile(agents.get(each));
  showPanel(true);
  setText($("agent-name"), name);
  showHead(agents.get(name));
  if (focus) $("agent-name").focus();
  refresh(++showing);
}

function close(write = true) {
  const tile = agents.get(chosen.agent)?.tile;
  const name = chosen.agent;
  chosen.agent = "";
  showing += 1;
  if (write) writeAddress();
  shown = null;
  showPanel(false);
  if (agents.has(name)) drawTile(agents.get(name));
  if (tile && !tile.hidden) focusTile(tile);
}

const narrow = matchMedia("(max-width: 999px)"); // the panel is above the wall, see wall.css

/** Nobody shall get to what is behind it. */
function showPanel(open) {
  const whole = open && narrow.matches;
  $("panel").hidden = !open;
  document.body.classList.toggle("beside", open && !whole);
  document.body.classList.toggle("whole", whole);
  for (const each of document.querySelectorAll("header, main")) each.inert = whole;
}

function showHead(agent) {
  $("agent-head").className = agent ? slug(agent.state) : "";
  setText($("agent-state"), agent ? lineOf(agent) : "There is no such agent (any more)");
}

/** Values at each turn, and what changes slowly at each sixth. What failed is tried again. */
async function refresh(mine, turn = 0) {
  if (mine !== showing || !chosen.agent) return;
  let next = turn;
  const path = `api/v1/agents/${encodeURIComponent(chosen.agent)}`;
  try {
    const agent = await get(path);
    if (mine !== showing) return;
    shown = agent;
    showFacts();
    if (turn % 6 === 0) {
      const [up, changes, muted] = await Promise.all([get(`${path}/uptime`),
        get(`api/v1/events?limit=30&agent=${encodeURIComponent(agent.name)}`),
        get(`api/v1/mutes?agent=${encodeURIComponent(agent.name)}`)]);
      if (mine !== showing) return;
      showUptime(up.cells.find((cell) => cell.variable === null));
      $("events").replaceChildren(...eventItems(changes.events, (event) => event.name));
      if (!changes.events.length) $("events").append(make("li", { textContent: "none" }));
      $("mutes").replaceChildren(...muted.mutes.map((mute) => muteItem(mute, refreshNow)));
    }
    showVariables();
    next += 1;
  } catch (error) {
    report(error);
  }
  setTimeout(() => refresh(mine, next), 1000 * Math.min(5, Math.max(1, shown?.period || 5)));
}

function showFacts() {
  const labels = Object.entries(shown.labels).map(([key, text]) => `${key}=${text}`).join(", ");
  const loss = ["lost", "late", "bad"].map((what) => shown[what]
    ? `, ${number.format(shown[what])} ${what === "bad" ? "damaged" : what}` : "").join("");
  const facts = [["address", shown.address], ["site", shown.site], ["labels", labels],
    ["behind", shown.parent], ["names", shown.profile],
    ["asked", `every ${shown.period} s, ${number.format(shown.reports)} reports${loss}`],
    ["last report", shown.heard_at ? `${moment(shown.heard_at)}, after ${
      (shown.round_trip * 1000).toFixed(1)} ms` : "none yet"],
    ["reboots", shown.reboots ? number.format(shown.reboots) : ""]];
  $("facts").replaceChildren(...facts.filter(([, text]) => text).flatMap(([key, text]) => [
    make("dt", { textContent: key }), make("dd", { textContent: text })]));
}

function showVariables() {
  $("variables").classList.toggle("old", MUTE.includes(shown.state));
  const used = shown.variables.filter((variable) => everything || variable.expected
    || variable.name || variable.value !== null);
  const body = $("variables").tBodies[0];
  if (used.length !== body.rows.length) {
    rows.clear();
    body.replaceChildren(...used.map(makeRow));
  }
  used.forEach(drawRow);
  const more = 64 - used.length;
  $("more").hidden = !more;
  setText($("more"), `Show ${more === 64 ? "all 64 variables" : `${more} more`}: never heard, and `
    + "nobody watches them");
  drawAges();
}

const percent = (share, seen) => (share === null ? "not seen"
  : `${share < 100 ? Math.min(99.99, share).toFixed(2) : 100} % of ${duration(seen)}`);

function showUptime(up) {
  setText($("uptime"), `well in 24 h: ${percent(up.day, up.day_seen)} · 7 d: ${
    percent(up.week, up.week_seen)} · 30 d: ${percent(up.month, up.month_seen)} seen`);
}

function makeRow({ variable, name, authenticated }) {
  const row = {
    value: make("td", { className: "number" }), age: make("td", { className: "number" }),
    line: make("small"), boot: make("small"),
    element: make("tr", {}),
  };
  const mark = authenticated === false ? [make("small", { textContent: "not authenticated" })] : [];
  row.element.append(make("th", { scope: "row" }, shape(), `${variable} ${name}`.trim(), ...mark,
    row.line, row.boot), row.value, row.age);
  rows.set(variable, row);
  return row.element;
}

function drawRow(variable) {
  const row = rows.get(variable.variable);
  const bad = SEVERITY.indexOf(variable.state) > FIRST_BAD;
  row.element.className = `${slug(variable.state)}${bad ? " bad-row" : ""}`;
  row.line.className = bad || variable.state === "unknown" ? "" : "unseen";
  setText(row.line, `${variable.state}${bad && variable.since
    ? ` for ${duration(serverNow() - variable.since, true)}` : ""}`);
  const out = variable.value !== null && (variable.value < variable.low
    || variable.value > variable.high);
  const text = variable.value === null ? "–" : `${variable.value}${out ? " !" : ""}`;
  if (row.value.textContent !== text) {
    row.value.replaceChildren(out ? make("b", { textContent: text }) : text);
  }
  row.value.title = variable.low > 0 || variable.high < 255
    ? `should be ${variable.low} to ${variable.high}` : "";
}

/** Ages count up here, between two answers. */
function drawAges() {
  if (!shown || $("panel").hidden) return;
  for (const variable of shown.variables) {
    const row = rows.get(variable.variable);
    if (!row) continue;
    // Of an agent that is silent, nobody knows whether a younger heartbeat came.
    const sign = variable.at_least ? "≥ " : MUTE.includes(shown.state)
      || variable.state === "unknown" ? "≤ " : "";
    const { boot } = variable;
    setText(row.boot, boot ? `up ${boot.at_least ? "≥ " : ""}${
      duration(serverNow() - boot.at, true)}: ${boot.words}` : "");
    setText(row.age, variable.heard_at === null ? "never"
      : `${sign}${duration(serverNow() - variable.heard_at, true)}`);
  }
}

// ---------------------------------------------------------------- the rest of the page
const refreshNow = () => refresh(++showing);
makeMuteForm(() => ({ name: chosen.agent }), refreshNow);
$("close").addEventListener("click", () => close());
$("more").addEventListener("click", () => {
  everything = true;
  showVariables();
});
$("search").addEventListener("input", () => {
  chosen.q = $("search").value;
  choose(filter);
});
$("clear").addEventListener("click", () => {
  chosen.q = $("search").value = "";
  chosen.states.clear();
  choose(filter);
});

phone.addEventListener("change", drawAll);
narrow.addEventListener("change", () => showPanel(!$("panel").hidden));
addEventListener("popstate", () => {
  close(false);
  readAddress();
  drawAll();
  if (chosen.agent) open(chosen.agent);
});

readAddress();
load();
setInterval(showLink, 1000);
setInterval(drawAges, 1000);
setInterval(drawTimes, SLOW_TICK);
setInterval(announce, QUIET);
