// Shows the pictures, the statistics and the command line, and connects the controls with the program.

import { Control, element } from "./controls.js";

const get = (id) => document.getElementById(id);
const pictures = get("pictures");
const controls = new Map();
let ended = false;
let before = null; // the previous state, for rates

async function send(path, request) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request) });
  if (!answer.ok) {
    const words = await answer.text();
    refresh();
    throw new Error(words);
  }
  return answer.json();
}

function status(words, kind = "") {
  get("status").textContent = words;
  get("status").className = `status ${kind}`;
}

function notice(words) {
  const shown = element("p", {}, words);
  get("notices").append(shown);
  setTimeout(() => shown.remove(), 8000);
}

// The picture

let view = "wipe";
let chosen = false; // the view was chosen by hand

function look(kind) {
  view = kind;
  pictures.classList.toggle("wipe", kind === "wipe");
  pictures.classList.toggle("side", kind === "side");
  get("view-wipe").setAttribute("aria-checked", kind === "wipe");
  get("view-side").setAttribute("aria-checked", kind === "side");
}
for (const kind of ["wipe", "side"]) {
  get(`view-${kind}`).addEventListener("click", () => { chosen = true; look(kind); });
}

function wipe(share) {
  const at = Math.min(1, Math.max(0, share));
  pictures.style.setProperty("--at", `${100 * at}%`);
  get("wipe").setAttribute("aria-valuenow", Math.round(100 * at));
}
wipe(0.5);
const drag = (event) => {
  const place = pictures.getBoundingClientRect();
  if (view === "wipe") wipe((event.clientX - place.left) / place.width);
};
pictures.addEventListener("pointerdown", (event) => {
  pictures.setPointerCapture(event.pointerId);
  drag(event);
});
pictures.addEventListener("pointermove", (event) => pictures.hasPointerCapture(event.pointerId) && drag(event));
get("wipe").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[event.key];
  if (!step) return;
  wipe(Number(get("wipe").getAttribute("aria-valuenow")) / 100 + step);
  event.preventDefault();
});

async function draw(pair) {
  const decoded = await Promise.all(["before", "after"].map((name) =>
    pair[name] instanceof Blob ? createImageBitmap(pair[name]) : null));
  const words = ["before", "after"].filter((name) => typeof pair[name] === "string")
    .map((name) => `There is no picture ${name === "before" ? "before" : "after"} the filters: ${pair[name]}.`);
  get("missing").textContent = words.join(" ");
  decoded.forEach((bitmap, i) => {
    if (!bitmap) return;
    const canvas = get(["before", "after"][i]);
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
  });
  const [first, second] = decoded.map((bitmap, i) => bitmap && get(["before", "after"][i]));
  const main = first ?? second;
  if (main) pictures.style.setProperty("--ratio", main.width / main.height);
  // A wipe means nothing between pictures of different shapes.
  const alike = first && second && Math.abs(first.width / first.height - second.width / second.height) < 0.02;
  if (!chosen && main) look(alike ? "wipe" : "side");
}

// Reads parts of multipart/x-mixed-replace from a stream of bytes.
async function* parts(stream) {
  let bytes = new Uint8Array(0);
  const text = new TextDecoder();
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(bytes.length + value.length);
    joined.set(bytes);
    joined.set(value, bytes.length);
    bytes = joined;
    for (;;) {
      const head = text.decode(bytes.subarray(0, 400)).split("\r\n\r\n", 1)[0];
      const length = Number(/Content-Length: (\d+)/.exec(head)?.[1] ?? NaN);
      const start = head.length + 4;
      if (!(bytes.length >= start + length + 2)) break;
      const body = bytes.slice(start, start + length);
      const kind = /Content-Type: (\S+)/.exec(head)[1];
      bytes = bytes.subarray(start + length + 2);
      yield { name: /X-Picture: (\w+)/.exec(head)[1],
              content: kind.startsWith("text/") ? text.decode(body) : new Blob([body], { type: kind }) };
    }
  }
}

let watching = null;
async function watch() {
  while (!ended) {
    if (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      continue;
    }
    watching = new AbortController();
    try {
      const answer = await fetch("pictures", { signal: watching.signal });
      let pair = {};
      for await (const part of parts(answer.body)) {
        pair[part.name] = part.content;
        if (part.name === "after") {
          await draw(pair);
          pair = {};
        }
      }
    } catch { /* the page hides, or the program is away for a while */ }
    if (!document.hidden) await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
// Nothing is encoded for a page that nobody sees.
document.addEventListener("visibilitychange", () => document.hidden && watching?.abort());

// Values, statistics and the command line

const DIGITS = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);
const ms = (nanoseconds) => (nanoseconds / 1e6).toFixed(DIGITS(nanoseconds / 1e6));
const KNOWN = ["backend", "device", "frames", "passed", "dropped", "processing-time-mean", "processing-time-max", "in-flight"];

function facts(id, stats, rate) {
  const made = [["frames/s", rate === null ? "\u2013" : rate.toFixed(1)]];
  made.push(["per frame", ms(stats["processing-time-mean"] ?? 0), "ms"]);
  made.push(["longest", ms(stats["processing-time-max"] ?? 0), "ms"]);
  if (stats.dropped) made.push(["dropped", stats.dropped]);
  if (stats["in-flight"]) made.push(["in flight", stats["in-flight"]]);
  for (const [name, value] of Object.entries(stats)) {
    if (KNOWN.includes(name)) continue;
    if (name === "mask-age") made.push(["mask age", ms(value), "ms"]);
    else made.push([name.replace(/-/g, " "), Number.isInteger(value) ? value : Number(value).toFixed(2)]);
  }
  return element("article", { id: `stats-${id}` },
    element("h3", {}, controls.get(id).about.title,
      element("span", { class: "badge" }, stats.backend + (stats.device >= 0 ? ` ${stats.device}` : ""))),
    element("dl", {}, ...made.map(([name, value, unit]) => element("div", {}, element("dt", {}, name),
      element("dd", {}, String(value), unit ? element("small", {}, unit) : null)))));
}

function markedLine(line) {
  // The settings of the elements stand out.
  const names = new Set([...controls.values()].map((each) => each.about.factory));
  let inside = false;
  return line.split(/( )/).map((word) => {
    if (names.has(word)) inside = true;
    else if (word === "!") inside = false;
    return inside && word !== " " ? element("mark", {}, word) : word;
  });
}

let shownLine = null;
let shownTime = 0;
function show(state) {
  // An answer and an event can overtake each other. The older one lacks the newest change.
  if (state.time < shownTime) return;
  shownTime = state.time;
  for (const [id, values] of Object.entries(state.values)) controls.get(id)?.show(values);
  if (!before || state.time - before.time > 0.9) {
    const seconds = before && state.time - before.time;
    get("stats").replaceChildren(...Object.entries(state.stats).filter(([, stats]) => "frames" in stats)
      .map(([id, stats]) => facts(id, stats, before && (stats.frames - before.stats[id].frames) / seconds)));
    before = state;
  }
  if (state.line !== shownLine) {
    shownLine = state.line;
    get("line").replaceChildren(...(state.line ? markedLine(state.line) : []));
  }
  get("line-card").hidden = !state.line;
}

async function refresh() {
  try {
    show(await (await fetch("state")).json());
  } catch { /* the stream of events reports it */ }
}

function listen() {
  const events = new EventSource("events");
  events.addEventListener("open", () => status("playing", "live"));
  events.addEventListener("state", (event) => show(JSON.parse(event.data)));
  events.addEventListener("warning", (event) => {
    const about = JSON.parse(event.data);
    const words = about.allowed ? `${about.text} Allowed: ${about.allowed}` : about.text;
    if (!controls.get(about.element)?.fault(about.property, words)) notice(words);
    refresh();
  });
  events.addEventListener("end", (event) => {
    ended = true;
    events.close();
    watching?.abort();
    status(JSON.parse(event.data).text, "lost");
  });
  events.addEventListener("error", () => !ended && status("connection lost", "lost"));
}

get("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(get("line").textContent);
  } catch {
    // Browsers refuse the clipboard to pages of other machines, so the text is selected there.
    getSelection().selectAllChildren(get("line"));
    document.execCommand("copy");
  }
  get("copy").textContent = "Copied";
  setTimeout(() => { get("copy").textContent = "Copy"; }, 1500);
});

const state = await (await fetch("state")).json();
document.title = state.title;
get("title").textContent = state.title;
get("note").textContent = state.note;
for (const about of state.controls) {
  const control = new Control(about, send, show);
  controls.set(about.id, control);
  get("controls").append(control.card);
}
show(state);
listen();
watch();
