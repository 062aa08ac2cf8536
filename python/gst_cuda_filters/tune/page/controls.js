// Builds a control for each property. A control sends its value and follows the values that the program reports.

const BLOCK = 1000; // positions of a slider of real numbers

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const shown = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5))));
const hex = (value, digits) => "0x" + (value >>> 0).toString(16).padStart(digits, "0");

// Returns how the positions of a slider stand for values, or null where a slider makes no sense.
function scaleOf(property, value) {
  let { minimum: low, maximum: high } = property;
  if (low < -1e300 || ["Set at the start", "More"].includes(property.group)) return null;
  const usual = Math.max(Math.abs(property.default), property.kind === "integer" ? 10 : 1);
  if (high > 100 * usual) high = Math.min(high, 10 * Math.max(usual, property.kind === "integer" ? 10 : 2));
  high = Math.max(high, Math.min(property.maximum, value * 1.25));
  if (low > 0 && high / low >= 1000) {
    const span = Math.log(high / low);
    return { steps: BLOCK, to: (at) => Number((low * Math.exp(span * at / BLOCK)).toPrecision(3)),
             from: (v) => BLOCK * Math.log(v / low) / span };
  }
  if (property.kind === "integer") return { steps: high - low, to: (at) => low + Math.round(at), from: (v) => v - low };
  const unit = 10 ** Math.floor(Math.log10((high - low) / 200));
  return { steps: BLOCK, to: (at) => Number((Math.round((low + (high - low) * at / BLOCK) / unit) * unit).toFixed(10)),
           from: (v) => BLOCK * (v - low) / (high - low) };
}

function numbers(property, change) {
  const number = element("input", { type: "number", step: property.kind === "integer" ? 1 : "any",
    "aria-label": property.name, disabled: property.locked,
    onchange: () => Number.isFinite(number.valueAsNumber) && change(number.valueAsNumber) });
  let scale = scaleOf(property, property.default);
  const range = scale && element("input", { type: "range", min: 0, step: 1, "aria-label": `${property.name} slider`,
    disabled: property.locked,
    oninput: () => {
      const value = scale.to(Number(range.value));
      number.value = shown(value);
      fill();
      change(value);
    } });
  const fill = () => range.style.setProperty("--fill", `${100 * range.value / range.max}%`);
  return { value: number, wide: range, show(value) {
    if (document.activeElement !== number) number.value = shown(value);
    if (!range || range.matches(":active")) return;
    scale = scaleOf(property, value);
    range.max = scale.steps;
    range.value = scale.from(value);
    fill();
  } };
}

function toggle(property, change) {
  const box = element("input", { type: "checkbox", class: "switch", role: "switch", "aria-label": property.name,
    disabled: property.locked, onchange: () => change(box.checked) });
  return { value: box, show(value) { box.checked = value; } };
}

function options(property, change) {
  const select = element("select", { "aria-label": property.name, disabled: property.locked,
    onchange: () => change(select.value) },
    ...property.choices.map((each) => element("option", { value: each.nick, title: each.about }, each.nick)));
  return { value: select, show(value) {
    select.value = value;
    select.title = property.choices.find((each) => each.nick === value)?.about ?? "";
  } };
}

function flags(property, change) {
  const buttons = property.choices.map((each) => element("button", { type: "button", title: each.about,
    disabled: property.locked, "aria-pressed": "false", onclick: (event) => {
      const pressed = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", pressed);
      change(property.choices.filter((_, i) => buttons[i].getAttribute("aria-pressed") === "true").map((c) => c.nick));
    } }, each.nick));
  return { value: element("span", { class: "segments" }, ...buttons), show(value) {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", value.includes(property.choices[i].nick)));
  } };
}

function color(property, change) {
  const digits = property.maximum > 0xffffff ? 8 : 6;
  let now = property.default;
  const code = element("input", { type: "text", class: "code", "aria-label": property.name, spellcheck: "false",
    disabled: property.locked, onchange: () => {
      const value = Number.parseInt(code.value.replace(/^(0x|#)/i, ""), 16);
      if (Number.isFinite(value)) change(value);
    } });
  // The picker knows no opacity, so the upper byte stays as it is.
  const picker = element("input", { type: "color", "aria-label": `${property.name} picker`, disabled: property.locked,
    oninput: () => change(Math.floor(now / 0x1000000) * 0x1000000 + Number.parseInt(picker.value.slice(1), 16)) });
  return { value: element("span", { class: "value" }, code, picker), show(value) {
    now = value;
    if (document.activeElement !== code) code.value = hex(value, digits);
    picker.value = "#" + (value % 0x1000000).toString(16).padStart(6, "0");
  } };
}

function text(property, change) {
  const list = property.choices.length ? `${property.name}-choices` : undefined;
  const input = element("input", { type: "text", "aria-label": property.name, spellcheck: "false", list,
    disabled: property.locked, onchange: () => change(input.value) });
  const datalist = list && element("datalist", { id: list },
    ...property.choices.map((each) => element("option", { value: each.nick }, each.about)));
  return { wide: element("span", {}, input, datalist), show(value) {
    if (document.activeElement !== input) input.value = value;
  } };
}

const KINDS = { boolean: toggle, enum: options, flags, color, integer: numbers, number: numbers, string: text };

export class Control {
  // `send(path, request)` returns the program's new state, and throws an Error with its sentence. `show(state)` shows
  // the state on the page.
  constructor(about, send, show) {
    this.about = about;
    this.send = send;
    this.showAll = show;
    this.rows = {};
    this.requests = []; // the one that is under way, and those that wait
    const groups = new Map();
    for (const property of about.properties) {
      if (property.name === "enabled") continue;
      const row = this.row(property);
      if (!groups.has(property.group)) groups.set(property.group, []);
      groups.get(property.group).push(row);
    }
    const enabled = about.properties.find((each) => each.name === "enabled");
    if (enabled) this.rows.enabled = { property: enabled, ...toggle(enabled, (value) => this.set("enabled", value)) };
    this.presets = about.presets.map((each) => element("button", { type: "button", class: "chip", title: each.about,
      onclick: (event) => this.load(each.name, event.currentTarget) }, each.name));
    const main = groups.get("") ?? [];
    groups.delete("");
    this.card = element("section", { class: "card control", id: `control-${about.id}` },
      element("div", { class: "top" },
        element("div", { class: "row" }, element("h2", {}, about.title), this.rows.enabled?.value),
        element("p", { class: "quiet" }, about.about)),
      about.properties.length === 1 ? null : element("div", { class: "chips" }, ...this.presets, element("button", { type: "button", class: "plain",
        title: "Set every property to its default", onclick: () => this.reset() }, "Defaults")),
      ...main,
      ...[...groups].map(([name, rows]) => element("details", { open: main.length === 0 },
        element("summary", {}, name), ...rows)));
  }

  row(property) {
    const made = KINDS[property.kind](property, (value) => this.set(property.name, value));
    const row = { property, ...made };
    row.fault = element("p", { class: "fault" });
    const notes = [property.about];
    if (property.locked) notes.push("It can only be set before the program starts.");
    else if (property.restarts) notes.push("A change starts the pipeline again.");
    row.box = element("div", { class: "property", "data-property": property.name },
      element("div", { class: "row" },
        element("button", { type: "button", class: "name", title: notes.join("\n"), "aria-expanded": "false",
          onclick: (event) => event.currentTarget.setAttribute("aria-expanded", row.box.classList.toggle("open")) },
        property.name),
        element("span", { class: "value" },
          element("button", { type: "button", class: "reset", title: `Default: ${JSON.stringify(property.default)}`,
            "aria-label": `Set ${property.name} to its default`, disabled: property.locked,
            onclick: () => this.set(property.name, property.default) }, "\u21ba"),
          made.value)),
      element("div", { class: "help" }, notes.join(". ").replace(/\.\. /g, ". "),
        property.choices.length ? element("dl", {}, ...property.choices.flatMap((each) =>
          [element("dt", {}, each.nick), element("dd", {}, each.about)])) : null),
      made.wide, row.fault);
    this.rows[property.name] = row;
    return row.box;
  }

  set(name, value) {
    this.choose(null);
    const last = this.requests.slice(1).at(-1);
    // Of the values of a property that wait, only the newest is sent.
    if (last?.about.property === name) last.about.value = value;
    else this.ask({ path: "set", about: { control: this.about.id, property: name, value } });
  }

  load(preset, chip) {
    this.choose(chip);
    this.ask({ path: "preset", about: { control: this.about.id, preset } });
  }

  choose(chip) {
    this.presets.forEach((each) => each.classList.toggle("chosen", each === chip));
  }

  // Requests go one after the other. Otherwise the program could see a later one first.
  async ask(request) {
    this.requests.push(request);
    if (this.requests.length > 1) return;
    while (this.requests.length) {
      const { path, about } = this.requests[0];
      // A warning can come before the answer.
      (about.property ? [about.property] : Object.keys(this.rows)).forEach((name) => this.fault(name, ""));
      let state = null;
      try {
        state = await this.send(path, about);
      } catch (error) {
        this.fault(about.property ?? this.about.properties[0].name, error.message);
        if (about.preset) this.choose(null);
      }
      this.requests.shift();
      if (state) this.showAll(state);
    }
  }

  reset() {
    for (const { property, now } of Object.values(this.rows)) {
      // While requests are under way, `now` may be older than they.
      if (property.restarts || (!this.requests.length && equal(now, property.default))) continue;
      this.set(property.name, property.default);
    }
  }

  fault(name, words) {
    const row = this.rows[name];
    if (row?.fault) row.fault.textContent = words;
    return Boolean(row?.fault);
  }

  show(values) {
    for (const [name, row] of Object.entries(this.rows)) {
      if (!(name in values) || this.requests.some((each) => each.about.property === name)) continue;
      row.now = values[name];
      row.show(values[name]);
      row.box?.classList.toggle("changed", !equal(values[name], row.property.default));
    }
  }
}
