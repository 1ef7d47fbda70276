"use strict";
// All text goes through text nodes and attributes, never through markup: names and shapes are data.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}
const h = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  made(document.createElementNS(SVG, tag), attributes, children);
const put = (id, ...children) => byId(id).replaceChildren(...children.flat(Infinity).filter(Boolean));

const whole = (x) => x.toLocaleString("en", { maximumFractionDigits: 0 });
const tenth = (x) => x.toLocaleString("en", { maximumFractionDigits: 1 });
const time = (us) => (us >= 100 ? whole(us) : us >= 1 ? tenth(us) : us.toFixed(2));
const percent = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)} %`;
const size = (n) =>
  n >= 1e9 ? `${tenth(n / 1e9)} GB` : n >= 1e6 ? `${tenth(n / 1e6)} MB`
  : n >= 1e3 ? `${tenth(n / 1e3)} kB` : `${n} B`;
const total = (items, of) => items.reduce((sum, item) => sum + of(item), 0);

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// What is shown: the call, its launches, what is selected.
let DOCUMENT, CALL, LAUNCHES;
const shown = { call: 0, step: -1, text: 0, pass: 0, sort: "lost", file: "", kind: "", rows: 200, open: new Set() };

// Parts of the page are opened when they are asked for: what one holds, or null while it is being
// opened; `then` is called when it is.
const OPENED = new Map(), WAITING = new Map();
function asked(name, then) {
  const call = shown.call, key = `${call} ${name}`;
  if (OPENED.has(key)) return OPENED.get(key);
  if (!WAITING.has(key)) {
    WAITING.set(key, new Set());
    inflated(PARTS[key]).then((content) => {
      OPENED.set(key, content);
      if (call === shown.call) WAITING.get(key).forEach((waiting) => waiting());
    });
  }
  WAITING.get(key).add(then); // once, however often it asks
  return null;
}
const summed = (differences) => { let last = 0; return differences.map((d) => (last += d)); };
const KINDS = ["body", "nest", "loops", "llvm", "assembly"];
const DUMPED_AS = { nest: "nests", assembly: "asm" }; // what `graphc dump` calls them

const heat = (f) => `hsl(${Math.round(8 + 118 * Math.max(0, (Math.min(f, 1) - 0.3) / 0.7))} 55% 38%)`;
const fraction = (step) => (step.us ? step.limit / step.us : 1);
const lost = (step) => Math.max(0, step.us - step.limit);
const phaseOf = (step) => step.phase || "none";
const phaseText = (step) => step.phase + (step.updates ? " + update" : "");
const moduleOf = (step) => step.module || "(no module)";

// -- the whole call -----------------------------------------------------------------------------

function head() {
  put("title", `${CALL.name}`);
  put("subtitle", `level ${CALL.level} · ${CALL.schedule} · ${CALL.machine.processor}`);
  put("calls", DOCUMENT.calls.length > 1 && h("span", { class: "tabs" }, DOCUMENT.calls.map(
    (call, i) => h("button", { "data-call": i, class: i === shown.call ? "on" : "" }, call.name))));
  const limit = total(LAUNCHES, (l) => Math.min(l.us, l.limit));
  const spent = total(LAUNCHES, (l) => l.us);
  const timings = Object.entries(CALL.timings);
  const cards = [
    [`${time(CALL.whole)} µs`, `a call; ${percent(CALL.inKernels / CALL.whole)} in launches`
      + (CALL.threads > 1 ? `, ${percent(CALL.waiting / CALL.whole)} waiting` : "")],
    [percent(spent ? limit / spent : 1), "of what this machine could do"],
    [`${LAUNCHES.length} / ${new Set(LAUNCHES.map((l) => l.name)).size}`, "launches / kernels"],
    [`${whole(CALL.nodes[0])} → ${whole(CALL.nodes[1])}`, "nodes traced → optimized"],
    [size(CALL.memory.arena), CALL.memory.bound
      ? `arena, ${(CALL.memory.arena / CALL.memory.bound).toFixed(2)} of the lower bound` : "arena"],
    [`${total(timings, (t) => t[1]).toFixed(2)} s`,
      timings.map(([name, took]) => `${name} ${took.toFixed(2)}`).join(" · ")],
    [`${whole(CALL.machine.gflops)} GF/s`, "measured peak of a core"],
  ];
  if (!CALL.quiet) cards.push(["not quiet", "other work ran on the machine: times are rough"]);
  put("cards", cards.map(([big, small]) =>
    h("div", { class: "card" }, h("b", {}, big), h("span", { class: "dim" }, small))));
}

// -- time and memory ----------------------------------------------------------------------------

const rootOf = (step) => CALL.steps[step.within.length ? step.within[0] : step.n].root;

function spans() {
  // When each step of the plan itself ran, over all threads.
  const found = new Map();
  CALL.events.forEach((events) => events.forEach(([slot, begin, end]) => {
    if (slot % 2 === 0) return;
    const root = rootOf(CALL.steps[slot >> 1]), known = found.get(root);
    found.set(root, known ? [Math.min(known[0], begin), Math.max(known[1], end)] : [begin, end]);
  }));
  let last = 0;
  return CALL.steps.filter((step) => step.root !== null).map((step) => {
    const span = found.get(step.root) || [last, last];
    last = span[1];
    return span;
  });
}

function timeline() {
  const W = 1180, row = 24, top = 14, height = 170;
  const at = spans();
  const end = Math.max(1e-3, ...CALL.events.flat().map((event) => event[2]));
  const x = (t) => (t / end) * W;
  const marks = [];
  CALL.events.forEach((events, thread) => {
    const y = top + thread * row;
    const regions = new Map();
    events.forEach(([slot, begin, over]) => {
      const step = CALL.steps[slot >> 1], width = x(over) - x(begin);
      step.within.forEach((n) => {
        const known = regions.get(n);
        regions.set(n, known ? [known[0], over] : [begin, over]);
      });
      if (width < 0.12) return;
      const box = { x: x(begin), y, width: Math.max(0.6, width - 0.3), height: row - 6 };
      if (slot % 2 === 0)
        marks.push(s("rect", { ...box, fill: "url(#hatch)", "data-tip": `wait, ${time(over - begin)} µs` }));
      else {
        marks.push(s("rect", { ...box, class: phaseOf(step), "data-step": step.n }));
        if (width > 50) marks.push(s("text", { x: box.x + 3, y: y + 13, class: "on" }, label(step)));
      }
    });
    for (const [n, [begin, over]] of regions) {
      const depth = CALL.steps[n].within.length;
      marks.push(s("rect", { x: x(begin), y: y - 5 + depth * 2, width: Math.max(1, x(over) - x(begin)),
        height: 2.5, fill: "var(--accent)", "data-step": n }));
    }
  });
  const base = top + CALL.events.length * row + 6, arena = CALL.memory.arena;
  CALL.buffers.forEach((buffer, n) => {
    if (buffer.place !== "arena" || !buffer.live || buffer.within !== null || !at.length) return;
    const [first, last] = buffer.live;
    const maker = CALL.steps.find((step) => step.root !== null && step.writes.includes(n))
      || CALL.steps.find((step) => step.root === first);
    marks.push(s("rect", {
      x: x(at[first][0]), y: base + height * (1 - (buffer.slot + buffer.bytes) / arena),
      width: Math.max(1, x(at[last][1]) - x(at[first][0])),
      height: Math.max(0.7, (height * buffer.bytes) / arena),
      class: phaseOf(maker), "fill-opacity": 0.42, stroke: "var(--card)", "stroke-width": 0.6,
      "data-step": maker.n,
      "data-tip": `b${n} ${buffer.type}, ${size(buffer.bytes)}, steps ${first} to ${last}, by ${maker.name} ${maker.module}`,
    }));
  });
  const bottom = base + (arena ? height : 0);
  put("timeline", s("svg", { viewBox: `0 0 ${W} ${bottom + 16}`, role: "img",
      "aria-label": "launches over time above the map of the arena" },
    s("defs", {}, s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)" }, s("rect", { width: 1.4, height: 5, fill: "var(--none)" }))),
    marks,
    arena ? s("text", { x: 2, y: base + 10 }, size(arena)) : null,
    s("text", { x: 2, y: bottom + 12 }, "0"),
    s("text", { x: W - 60, y: bottom + 12 }, `${time(end)} µs`)));
}

function label(step) {
  const known = ["attention_grad", "attention", "conv_weight_grad", "conv_input_grad", "conv",
    "matmul", "index_add", "sum", "max"];
  const ops = step.ops.map((op) => op.split(" ").pop());
  const name = known.find((op) => ops.includes(op));
  return name ? name + (ops.length > 1 ? ` +${ops.length - 1}` : "")
    : step.name.replace(/^k\d+_/, "");
}

// -- modules, lines, roofline -------------------------------------------------------------------

const COLUMN_PHASES = [["forward", ""], ["backward"], ["update"]];

function chip(step, scale) {
  const width = Math.max(9, step.us * scale - 2);
  return h("button", {
    class: "chip", "data-step": step.n, "aria-label": `${step.name}, ${time(step.us)} µs`,
    style: `width:${width}px;background:${heat(fraction(step))}`,
  }, (step.updates ? "• " : "") + (width > 24 ? label(step) : ""));
}

function pixels(names) {
  // Of a microsecond, so that the widest cells of the three columns stand beside each other.
  const widest = COLUMN_PHASES.map((phases) => Math.max(0, ...names.map((name) =>
    total(LAUNCHES.filter((l) => moduleOf(l) === name && phases.includes(l.phase)), (l) => l.us))));
  return Math.max(300, byId("modules").clientWidth - 480) / (total(widest, (w) => w) || 1);
}

function modules() {
  const order = new Map();
  for (const phase of ["forward", "backward", "update", ""])
    LAUNCHES.filter((l) => l.phase === phase).forEach((l) => {
      if (!order.has(moduleOf(l))) order.set(moduleOf(l), order.size);
    });
  const scale = pixels([...order.keys()]);
  const rows = [...order.keys()].map((name) => {
    const mine = LAUNCHES.filter((l) => moduleOf(l) === name);
    const cell = (phases) => h("td", { class: "chips" }, mine.filter((l) => phases.includes(l.phase)).map((l) => chip(l, scale)));
    const depth = name.split(".").length - 1;
    return h("tr", {}, h("td", { class: "mono", style: `padding-left:${6 + depth * 9}px` }, name),
      COLUMN_PHASES.map(cell),
      h("td", { class: "number" }, time(total(mine, (l) => l.us))),
      h("td", { class: "number" }, time(total(mine, lost))));
  });
  put("modules", h("table", {}, h("tr", {},
    ["module", "forward", "backward", "update"].map((t) => h("th", {}, t)),
    ["µs", "to win"].map((t) => h("th", { class: "number" }, t))), rows));
}

function source() {
  const cost = new Map();
  LAUNCHES.forEach((l) => {
    if (!l.path) return;
    const line = Number(l.line.split(":").pop()), of = cost.get(l.path) || new Map();
    of.set(line, (of.get(line) || 0) + l.us);
    cost.set(l.path, of);
  });
  const files = Object.keys(DOCUMENT.files).filter((path) => cost.has(path));
  if (!files.includes(shown.file)) shown.file = files[0] || "";
  put("files", files.length > 1 && files.map((path) =>
    h("button", { "data-file": path, class: path === shown.file ? "on" : "" }, DOCUMENT.files[path].name)));
  const file = DOCUMENT.files[shown.file];
  if (!file) return put("source", "no source is known");
  const of = cost.get(shown.file), most = Math.max(...of.values());
  put("source", file.lines.map(([number, text]) => {
    const us = of.get(number);
    const tint = us ? `background:color-mix(in srgb, #d98324 ${Math.round((45 * us) / most)}%, transparent)` : null;
    return h("span", { class: us ? "hot" : "", style: tint, "data-line": us ? `${file.name}:${number}` : null,
      tabindex: us ? 0 : null }, h("i", {}, us ? time(us) : ""), text || " ");
  }));
  const dearest = [...of.keys()].sort((a, b) => of.get(b) - of.get(a))[0];
  const position = file.lines.findIndex(([number]) => number === dearest);
  byId("source").scrollTop = Math.max(0, position - 6) * (byId("source").scrollHeight / file.lines.length);
}

function roofline() {
  const W = 520, H = 300, log = Math.log10, peak = CALL.machine.gflops;
  const dots = LAUNCHES.filter((l) => l.flops && l.us);
  if (!dots.length) return put("roofline", h("p", { class: "dim" }, "No launch sums products."));
  const ratio = (l) => l.flops / Math.max(l.bytes, 1), rate = (l) => l.flops / l.us / 1e3;
  const most = Math.max(peak * CALL.threads, ...dots.map(rate));
  const x0 = log(Math.min(0.5, ...dots.map(ratio))), x1 = log(Math.max(300, ...dots.map(ratio)));
  const y0 = log(Math.min(8, ...dots.map(rate))), y1 = log(most) + 0.1;
  const X = (v) => 34 + ((W - 49) * (log(v) - x0)) / (x1 - x0);
  const Y = (v) => H - 24 - ((H - 44) * (log(v) - y0)) / (y1 - y0);
  const lines = CALL.machine.levels.filter((level) => level[0] !== "L1").map(([name, , speed]) => {
    const from = Math.max(10 ** x0, 10 ** y0 / speed), to = peak / speed;
    return [s("line", { x1: X(from), y1: Y(speed * from), x2: X(to), y2: Y(peak), stroke: "var(--dim)", "stroke-width": 0.8 }),
      s("text", { x: X(from) + 4, y: Y(speed * from) - 5 }, `${name} ${whole(speed)} GB/s`)];
  });
  const spent = total(LAUNCHES, (l) => l.us) || 1;
  put("roofline", s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "rate over operations per byte" },
    lines, s("line", { x1: X(10 ** x0), y1: Y(peak), x2: W - 10, y2: Y(peak), stroke: "var(--dim)" }),
    s("text", { x: W - 150, y: Y(peak) - 4 }, `products ${whole(peak)} GF/s a core`),
    dots.map((l) => s("circle", { cx: X(ratio(l)), cy: Y(rate(l)), r: Math.max(3, Math.sqrt(l.us / spent) * 28),
      class: phaseOf(l), "fill-opacity": 0.55, stroke: heat(fraction(l)), "stroke-width": 1.5, "data-step": l.n })),
    s("text", { x: W / 2 - 40, y: H - 4 }, "operations per byte"), s("text", { x: 2, y: 12 }, "GF/s")),
  h("p", { class: "dim" }, "Launches that sum products; area is time. The others are held against memory and vector work in the table."));
}

// -- tables -------------------------------------------------------------------------------------

const COLUMNS = [["us", "µs", (l) => l.us], ["lost", "to win", lost],
  ["gflops", "GF/s", (l) => (l.us ? l.flops / l.us / 1e3 : 0)], ["gbytes", "GB/s", (l) => (l.us ? l.bytes / l.us / 1e3 : 0)]];

function launches() {
  const wanted = byId("filter").value.toLowerCase();
  const text = (l) => [l.module, l.name, l.line, l.ops.join(" "), phaseText(l), l.bound].join(" ").toLowerCase();
  const key = COLUMNS.find((c) => c[0] === shown.sort)[2];
  const rows = LAUNCHES.filter((l) => text(l).includes(wanted)).sort((a, b) => key(b) - key(a));
  put("found", `${rows.length} of ${LAUNCHES.length} launches, ${time(total(rows, (l) => l.us))} µs`);
  put("launches", h("table", {}, h("tr", {}, ["launch", "module", "phase", "line"].map((t) => h("th", {}, t)),
    COLUMNS.map(([id, title]) => h("th", { class: "number" }, h("button", { "data-sort": id, "aria-pressed": id === shown.sort }, title + (id === shown.sort ? " ▾" : "")))),
    h("th", {}, "limit"), h("th", {}, "reached")),
  rows.slice(0, 600).map((l) => h("tr", { "data-step": l.n, tabindex: 0 },
    h("td", { class: "mono" }, l.name + (l.runs > 1 ? ` ×${l.runs}` : "")), h("td", { class: "mono" }, l.module),
    h("td", {}, phaseText(l)), h("td", { class: "mono" }, l.line),
    h("td", { class: "number" }, time(l.us)), h("td", { class: "number" }, time(lost(l))),
    h("td", { class: "number" }, l.flops ? whole(l.flops / l.us / 1e3) : ""), h("td", { class: "number" }, l.us ? whole(l.bytes / l.us / 1e3) : ""),
    h("td", {}, l.bound), h("td", {}, meter(l))))));
  mark();
}

const meter = (l) => [h("span", { class: "bar" }, h("i", { style: `width:${Math.min(100, 100 * fraction(l))}%;background:${heat(fraction(l))}` })), ` ${percent(fraction(l))}`];

function passes() {
  const list = CALL.passes;
  shown.pass = Math.max(0, Math.min(list.length - 1, shown.pass));
  put("passes", list.map((p, i) => h("button", { "data-pass": i, class: i === shown.pass ? "on" : "" }, `${i + 1} ${p.name} ${p.before}→${p.after}`)));
  const pass = list[shown.pass];
  if (!pass) return put("changes", h("p", { class: "dim" }, "No pass changed anything."));
  put("changes", h("p", { class: "dim" }, `${pass.all} nodes differ in what they compute or where they stem from; ${pass.ms} ms. `
      + (pass.rules.length ? "Rules that fired: " + pass.rules.map(([rule, n]) => `${rule} ×${n}`).join(" · ") : "No rule fired.")),
  h("pre", {}, pass.lines.map((line) => h("div", { class: line[0] === "-" ? "gone" : "new" }, line)),
    pass.lines.length < pass.all ? h("div", { class: "dim" }, `… ${pass.all - pass.lines.length} more`) : null));
}

// -- the side panel -----------------------------------------------------------------------------

function side() {
  const step = CALL.steps[shown.step];
  const chosen = nodePanel();
  if (!step) return put("side", chosen || h("p", { class: "dim" }, "Nothing ran."));
  const texts = asked("kernels", side), kernel = (texts && texts[step.name]) || {};
  const links = (list) => list.length ? list.slice(-8).map((l) => [h("a", { href: `#${l.n}`, "data-step": l.n }, l.name), " "]) : "–";
  const roots = CALL.steps.filter((l) => l.root !== null);
  const from = roots.filter((l) => l.root < step.root && l.writes.some((b) => step.reads.includes(b)));
  const to = roots.filter((l) => l.root > step.root && l.reads.some((b) => step.writes.includes(b)));
  const fact = (name, value) => h("tr", {}, h("td", {}, name), h("td", { class: "wrap number" }, value));
  put("side", chosen,
    h("h2", {}, step.name, " ", h("span", { class: "dim" }, `step ${step.n}`
      + (step.within.length ? ` in ${step.within.map((n) => `${CALL.steps[n].name} ${n}`).join(" in ")}` : "")
      + (kernel.recipe ? ` · ${kernel.recipe}` : ""))),
    h("div", { class: "mono" }, h("b", {}, step.module), " ", phaseText(step)),
    sourceLines(step),
    h("table", {},
      fact("time", `${time(step.us)} µs, ${percent(step.us / CALL.whole)} of the call` + (step.runs > 1 ? `, ${step.runs} runs` : "")),
      step.threads.length > 1 && fact("by thread", step.threads.map(time).join(" · ") + " µs"),
      step.bound && fact(`limit: ${step.bound}`, `${time(step.limit)} µs, ${percent(fraction(step))} reached`),
      Object.keys(step.parts).length > 0 && fact("what each part allows", Object.entries(step.parts).map(([name, us]) => `${name} ${time(us)}`).join(" · ")),
      step.flops > 0 && fact("products", `${tenth(step.flops / 1e6)} MFLOP, ${whole(step.flops / step.us / 1e3)} GF/s`),
      step.bytes > 0 && fact("bytes", `${size(step.bytes)}, ${whole(step.bytes / step.us / 1e3)} GB/s`)),
    kernel.note && h("p", { class: "dim" }, kernel.note),
    step.root !== null && h("p", {}, "reads from ", links(from), h("br"), "read by ", links(to)),
    step.reads.length + step.writes.length > 0 && h("p", { class: "mono dim" }, [...step.writes.map((b) => `b${b}`)].join(", ") || "–", " = ", step.ops.join(", "), " of ", step.reads.map((b) => `b${b} ${CALL.buffers[b].type}`).join(", ")),
    step.nodes.length > 0 && h("p", {}, h("a", { href: "#", "data-reveal": step.n }, "show its nodes in the graph")),
    why(step),
    h("div", { class: "tabs" }, KINDS.map((kind, i) => h("button", { "data-text": i, class: i === shown.text ? "on" : "" }, kind))),
    h("pre", { id: "text" }, kernel[KINDS[shown.text]]
      || (!texts ? "opening …" : kernel.body ? `Not in this page: graphc dump --stage ${DUMPED_AS[KINDS[shown.text]] || KINDS[shown.text]} --kernel ${step.name}` : "This step is no kernel.")));
  mark();
}

function sourceLines(step) {
  const rows = [];
  for (const place of step.lines.slice(0, 6)) {
    const cut = place.lastIndexOf(":"), file = DOCUMENT.files[place.slice(0, cut)];
    const line = file && file.lines.find(([number]) => number === Number(place.slice(cut + 1)));
    if (line) rows.push(`${file.name}:${line[0]}  ${line[1].trim()}`);
  }
  return rows.length ? h("pre", {}, rows.join("\n")) : step.line && h("div", { class: "mono" }, step.line);
}

function mark() {
  document.querySelectorAll(".selected").forEach((e) => e.classList.remove("selected"));
  document.querySelectorAll(`[data-step="${shown.step}"]`).forEach((e) => e.classList.add("selected"));
}

function select(number) {
  if (!CALL.steps[number]) return;
  shown.step = Number(number);
  side();
  markGraph();
  history.replaceState(null, "", `#${number}`);
}

// -- what answers -------------------------------------------------------------------------------

function render() {
  CALL = DOCUMENT.calls[shown.call];
  LAUNCHES = CALL.steps.filter((step) => step.kind === "launch");
  shown.open.clear();
  shown.kind = "";
  shown.rows = ROWS;
  shown.pass = Math.max(0, CALL.passes.findIndex((p) => p.name === "canonicalize"));
  head(); timeline(); modules(); source(); roofline(); launches(); passes(); decisions(); openGraph();
  const dearest = [...LAUNCHES].sort((a, b) => lost(b) - lost(a))[0];
  const linked = location.hash.slice(1);
  shown.step = linked && CALL.steps[linked] ? Number(linked) : dearest ? dearest.n : 0;
  side();
}

document.addEventListener("click", (event) => {
  const at = event.target.closest("[data-call],[data-text],[data-pass],[data-sort],[data-file],[data-line],[data-kind],[data-alike],[data-more],[data-graph],[data-fold],[data-node],[data-goto],[data-reveal],[data-step]");
  if (!at) return;
  const d = at.dataset;
  if (d.call !== undefined) { shown.call = Number(d.call); history.replaceState(null, "", "#"); render(); }
  else if (d.text !== undefined) { shown.text = Number(d.text); side(); }
  else if (d.pass !== undefined) { shown.pass = Number(d.pass); passes(); }
  else if (d.sort !== undefined) { shown.sort = d.sort; launches(); }
  else if (d.file !== undefined) { shown.file = d.file; source(); }
  else if (d.line !== undefined) { byId("filter").value = d.line; launches(); }
  else if (d.kind !== undefined) { shown.kind = d.kind; shown.rows = ROWS; decisions(); }
  else if (d.alike !== undefined) { if (!shown.open.delete(d.alike)) shown.open.add(d.alike); decisions(); }
  else if (d.more !== undefined) { shown.rows += ROWS; decisions(); }
  else if (d.graph !== undefined) BUTTONS[d.graph]();
  else if (d.fold !== undefined) toggleFold(d.fold);
  else if (d.node !== undefined) chooseNode(d.node);
  else if (d.goto !== undefined) { event.preventDefault(); graph.stage = Number(d.at); reveal(Number(d.goto)); }
  else if (d.reveal !== undefined) { event.preventDefault(); graph.node = null; revealLaunch(d.reveal); }
  else { event.preventDefault(); graph.node = at.closest("#node") ? graph.node : null; select(d.step); }
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.tagName === "SELECT" || (event.target.tagName === "INPUT" && event.target.type !== "range");
  if (event.key === "Escape" && typing) { event.target.value = ""; event.target.dispatchEvent(new Event("input")); event.target.blur(); }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = (by) => {
    const position = LAUNCHES.findIndex((l) => l.n === shown.step);
    const next = LAUNCHES[Math.max(0, Math.min(LAUNCHES.length - 1, position + by))];
    if (next) select(next.n);
  };
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    "]": () => { shown.pass += 1; passes(); }, "[": () => { shown.pass -= 1; passes(); },
    ",": () => toStage(graph.stage - 1), ".": () => toStage(graph.stage + 1),
    "/": () => byId("filter").focus(), d: () => byId("ledgerFilter").focus(),
    Enter: () => { // what is SVG has no click of its own
      if (event.target.closest("[data-step],[data-line],[data-alike],[data-fold]")) event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    },
    ...Object.fromEntries(KINDS.map((_, i) => [i + 1, () => { shown.text = i; side(); }])),
  };
  if (keys[event.key] && !(event.key === "Enter" && event.target.tagName === "BUTTON")) { event.preventDefault(); keys[event.key](); }
});

document.addEventListener("mousemove", (event) => {
  const at = event.target.closest("svg [data-step], svg [data-tip], .chip, #graph [data-box], #graph [data-edge]"), tip = byId("tip");
  if (!at) { tip.style.display = "none"; return; }
  const step = CALL.steps[at.dataset.step];
  tip.textContent = at.closest("#graph") ? graphTip(at) : at.dataset.tip || `${step.name} · ${step.module} ${phaseText(step)} · ${time(step.us)} µs`
    + (step.bound ? `, ${percent(fraction(step))} of ${step.bound}` : "");
  tip.style.display = "block";
  tip.style.left = `${Math.max(0, Math.min(innerWidth - 430, event.clientX + 12))}px`;
  tip.style.top = `${event.clientY + 14}px`;
});
byId("filter").addEventListener("input", launches);
byId("ledgerFilter").addEventListener("input", decisions);
