// The picture of the graph: what graph_layout.js has placed, as SVG that folds, zooms and is asked.

const READABLE = 0.66; // the scale below which nothing is fitted by itself
const graph = { stage: -1, unfolded: new Set(), scale: 1, auto: true, colour: "phase", node: null, waiting: null, seen: null, lines: [], found: null };

function openGraph() {
  graph.stage = CALL.stages.length - 1;
  graph.node = graph.found = graph.waiting = null;
  graph.unfolded = null;
  byId("graphFind").value = "";
  byId("graphStage").max = graph.stage;
  graph.fitted = false;
  drawGraph();
}

const current = () => stageOf(graph.stage, drawGraph);
const again = () => {
  drawGraph();
  if (graph.waiting === null) side(); else chooseNode(graph.waiting);
};

// The two lines of a node: what it is, with constants of one number that it reads, and its type.
function nodeLabel(stage, node) {
  const op = stage.op[node];
  if (op === "input") return [stage.detail[node].slice(1).split(".").slice(-2).join("."), stage.type[node]];
  if (op === "constant") return ["constant", stage.type[node]];
  const scalars = stage.operands[node].map((operand) => stage.scalar[operand]).filter((text) => text !== null);
  return [[op, ...scalars.map(shortNumber)].join(" "), stage.type[node]];
}
const shortNumber = (text) => (Number.isFinite(Number(text)) && text.length > 7 ? String(Number(Number(text).toPrecision(4))) : text);

function drawGraph() {
  const stage = current(), stages = CALL.stages;
  byId("graphStage").value = graph.stage;
  byId("graphStages").textContent = graph.stage ? `after ${stages[graph.stage][0]} (${graph.stage} of ${stages.length - 1})` : "as traced";
  if (!stage) return put("graph", h("p", { class: "dim" }, "opening …"));
  if (!graph.unfolded) graph.unfolded = opening(stage);
  const change = graph.stage ? `, ${whole(stage.fresh.size)} of them new` : "", next = stages[graph.stage + 1];
  byId("graphCount").textContent = `${whole(stage.count)} nodes${change}` + (next ? `; ${next[0]} takes ${whole(stage.gone.size)} away` : "");
  const seen = (graph.seen = picture(stage, graph.unfolded, nodeLabel));
  graph.cost = costs();
  graph.lines = edges(stage, seen);
  const rows = byLane(seen);
  const drawn = graph.lines.map((edge, i) => {
    const bytes = total([...edge.values], (node) => stage.flows[node]), small = bytes <= 16 * edge.values.size;
    const path = s("path", { d: route(edge, rows, seen), class: `edge ${LANES[edge.from.lane]}${small ? " single" : ""}`, "data-edge": i,
      "stroke-width": small ? 0.8 : Math.min(4.5, 0.9 + 0.3 * Math.log2(1 + bytes / 2048)), "marker-end": `url(#tip${edge.from.lane})` });
    edge.path = path;
    return path;
  });
  const svg = s("svg", { id: "graphSvg", viewBox: `0 0 ${seen.width} ${seen.height}`, role: "img", "aria-label": "the graph by module and phase" },
    s("defs", {}, LANES.map((lane, i) => s("marker", { id: `tip${i}`, viewBox: "0 0 6 6", refX: 5.4, refY: 3, markerWidth: 5.5, markerHeight: 5.5,
      markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, s("path", { d: "M0 0L6 3L0 6z", class: lane })))),
    seen.lanes.map(({ lane, from, to }) => [s("rect", { x: from - 6, y: 2, width: to - from + 12, height: seen.height - 4, rx: 8, class: `lane ${LANES[lane]}` }),
      s("text", { x: (from + to) / 2, y: 18, class: "laneName" }, LANES[lane] + (lane === 1 ? " ↑" : " ↓"))]),
    seen.frames.map((box) => frameOf(stage, box)), drawn, seen.boxes.map((box) => boxOf(stage, box)));
  put("graph", svg);
  if (graph.fitted) zoom(graph.scale); else fit();
  graph.fitted = true;
  markGraph();
}

// -- boxes --------------------------------------------------------------------------------------

const fold = (of) => ({ "data-fold": of.key, tabindex: 0, role: "button" });
const titleOf = (of) => (/^\d+$/.test(of.name) && of.parent.name ? `${of.parent.name}.${of.name}` : of.name || CALL.name);

function frameOf(stage, box) {
  const of = box.group, title = titleOf(of);
  const note = of.kind === "module" ? `${whole(of.all.length)} nodes` : sourceOf(of.source) || (of.node === undefined ? "" : stage.detail[of.node]);
  return s("g", { class: `frame ${of.kind}`, "data-key": of.key }, s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 7, class: of.single ? LANES[box.lane] : "" }),
    s("g", { ...fold(of), "aria-expanded": true }, s("rect", { x: box.x, y: box.y, width: box.width, height: HEAD - 2, rx: 7, class: "handle" }),
      s("text", { x: box.x + 8, y: box.y + 14, class: "name" }, `▾ ${title}`, s("tspan", { class: "note", dx: 8 }, cut(note, (box.width - 30 - 7 * title.length) / 5.6)))));
}

function boxOf(stage, box) {
  const { x, y, width, height, lane } = box;
  if (box.group) {
    const of = box.group, nodes = of.all.filter((node) => stage.lane[node] === lane), title = cut(titleOf(of), 23);
    box.shape = s("rect", { x, y, width, height, rx: 7, class: `shape ${LANES[lane]}`, ...tint(stage, nodes, box) });
    return s("g", { class: "cell", ...fold(of), "aria-expanded": false, "data-box": box.id }, box.shape,
      s("text", { x: x + 9, y: y + 14, class: "name" }, `▸ ${title}`, s("tspan", { class: "note", dx: 7 }, cut(known(stage, nodes), (width - 34 - 6.8 * title.length) / 5.3))),
      s("text", { x: x + 9, y: y + 28, class: "note" }, cut(cellNote(stage, of, lane, nodes), 31)));
  }
  const [name, type] = nodeLabel(stage, box.node);
  const kind = stage.outputs.has(box.node) ? "output" : stage.op[box.node] === "input" ? "input" : "";
  box.shape = s("rect", { x, y, width, height, rx: kind === "input" ? height / 2 : 4, class: `shape ${LANES[lane]} ${kind}`, ...tint(stage, [box.node], box) });
  return s("g", { class: "node", "data-node": box.node, "data-box": box.id }, box.shape,
    s("text", { x: x + width / 2, y: y + 13, class: "name middle" }, cut(name, (width - 6) / 6)), s("text", { x: x + width / 2, y: y + 25, class: "note middle" }, cut(type, (width - 6) / 5.1)));
}

const cut = (text, most) => (text.length <= most ? text : most < 3 ? "" : `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…`);
const countOf = (n, name) => `${whole(n)} ${name}${n === 1 ? "" : name === "launch" ? "es" : "s"}`;

function cellNote(stage, of, lane, nodes) {
  if (graph.colour === "change") {
    const fresh = total(nodes, (n) => (stage.fresh.has(n) ? 1 : 0)), gone = total(nodes, (n) => (stage.gone.has(n) ? 1 : 0));
    return [countOf(nodes.length, "node"), fresh && `+${fresh}`, gone && `−${gone} next`].filter(Boolean).join(" · ");
  }
  const cost = of.kind === "module" ? graph.cost.get(`${lane} ${of.key}`) : null;
  return [countOf(nodes.length, "node"), cost && countOf(cost.launches, "launch"), cost && `${time(cost.us)} µs`, sourceOf(of.source)].filter(Boolean).join(" · ");
}

// The ops that nodes are known by: products and what has a kernel or definition of its own.
function known(stage, nodes) {
  const counts = new Map();
  nodes.forEach((node) => { if (stage.texts.heads.includes(stage.op[node])) counts.set(stage.op[node], (counts.get(stage.op[node]) || 0) + 1); });
  return [...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => (n > 1 ? `${n} ${op}` : op)).join(", ");
}

function sourceOf(place) {
  if (!place) return "";
  const at = place.lastIndexOf(":"), file = DOCUMENT.files[place.slice(0, at)];
  const line = file && file.lines.find(([number]) => number === Number(place.slice(at + 1)));
  return line ? line[1].trim() : "";
}

// By lane and module what its launches take, those of modules inside of it too.
function costs() {
  const cost = new Map();
  LAUNCHES.forEach((launch) => {
    const lane = Math.max(0, LANES.indexOf(launch.phase));
    for (let path = launch.module; ; path = path.slice(0, Math.max(0, path.lastIndexOf(".")))) {
      const key = `${lane} ${path}`, known = cost.get(key) || { launches: 0, us: 0 };
      cost.set(key, { launches: known.launches + 1, us: known.us + launch.us });
      if (!path) break;
    }
  });
  return cost;
}

// The colour of a box by what was chosen: its phase unless said.
function tint(stage, nodes, box) {
  const filled = (colour, part) => ({ style: `--tint:${colour};--part:${Math.round(100 * part)}%` });
  if (graph.colour === "change") {
    const fresh = nodes.some((n) => stage.fresh.has(n)), gone = nodes.some((n) => stage.gone.has(n));
    return fresh && gone ? filled("#b8860b", 0.4) : fresh ? filled("#2e9e4f", 0.45) : gone ? filled("#d04545", 0.4) : filled("var(--none)", 0.06);
  }
  if (graph.colour === "time") {
    const us = box.group && box.group.kind === "module" ? (graph.cost.get(`${box.lane} ${box.group.key}`) || { us: 0 }).us
      : Math.max(0, ...nodes.flatMap((n) => launchesOf(stage, n) || []).map((n) => CALL.steps[n].us));
    return filled("#d9601a", 0.04 + 0.9 * Math.min(1, Math.sqrt((2 * us) / CALL.whole)));
  }
  if (graph.colour === "launch" && !box.group) {
    const [launch] = launchesOf(stage, box.node) || [];
    return launch === undefined ? filled("var(--none)", 0) : filled(`hsl(${(launch * 137) % 360} 65% 50%)`, 0.45);
  }
  return {};
}

// -- edges --------------------------------------------------------------------------------------

function byLane(seen) {
  const rows = [[], [], []];
  seen.boxes.forEach((box) => rows[box.lane].push(box));
  rows.forEach((row) => row.sort((a, b) => a.y - b.y));
  return rows;
}

// Within a lane straight to the next row, and by the side past what stands between; to another lane by the sides.
function route({ from, to }, rows, seen) {
  const mid = (box) => box.x + box.width / 2, n = (x) => x.toFixed(1);
  const y1 = from.y + from.height / 2, y2 = to.y + to.height / 2;
  if (from.lane !== to.lane) {
    const right = to.lane > from.lane, x1 = right ? from.x + from.width : from.x, x2 = right ? to.x : to.x + to.width, reach = Math.max(24, Math.abs(x2 - x1) / 2) * (right ? 1 : -1);
    return `M${n(x1)} ${n(y1)}C${n(x1 + reach)} ${n(y1)} ${n(x2 - reach)} ${n(y2)} ${n(x2)} ${n(y2)}`;
  }
  const down = to.y >= from.y + from.height, up = from.y >= to.y + to.height;
  const [upper, lower] = down ? [from, to] : [to, from];
  const between = down || up ? blocking(rows[from.lane], upper, lower, mid) : [];
  if ((down || up) && !between.blocked) {
    const a = down ? from.y + from.height : from.y, b = down ? to.y : to.y + to.height, bend = (b - a) / 2;
    return `M${n(mid(from))} ${n(a)}C${n(mid(from))} ${n(a + bend)} ${n(mid(to))} ${n(b - bend)} ${n(mid(to))} ${n(b)}`;
  }
  const right = from.lane > 0, side = (box) => (right ? box.x + box.width : box.x), sign = right ? 1 : -1;
  const away = 8 + 5 * ((from.id * 7 + to.id * 3) % 4);
  const lane = seen.lanes.find((each) => each.lane === from.lane), edge = right ? lane.to : lane.from;
  let x = between.far || !between.boxes ? edge : [from, to, ...between.boxes].map(side).reduce((a, b) => (right ? Math.max(a, b) : Math.min(a, b)));
  x += sign * away;
  const r = Math.min(9, Math.abs(y2 - y1) / 2) * Math.sign(y2 - y1 || 1);
  return `M${n(side(from))} ${n(y1)}H${n(x - sign * 9)}Q${n(x)} ${n(y1)} ${n(x)} ${n(y1 + r)}V${n(y2 - r)}Q${n(x)} ${n(y2)} ${n(x - sign * 9)} ${n(y2)}H${n(side(to))}`;
}

function blocking(row, upper, lower, mid) {
  const x1 = mid(upper), x2 = mid(lower), top = upper.y + upper.height, between = { blocked: false, far: false, boxes: [] };
  let low = 0, high = row.length;
  while (low < high) { const half = (low + high) >> 1; if (row[half].y < top - 60) low = half + 1; else high = half; }
  for (let i = low; i < row.length && row[i].y < lower.y; i += 1) {
    const box = row[i];
    if (box === upper || box === lower || box.y + box.height <= top + 1 || box.y + 1 >= lower.y) continue;
    between.boxes.push(box);
    const at = (box.y + box.height / 2 - top) / Math.max(1, lower.y - top), x = x1 + (x2 - x1) * at;
    if (x > box.x - 3 && x < box.x + box.width + 3) between.blocked = true;
    if (between.boxes.length > 120) { between.blocked = between.far = true; break; }
  }
  return between;
}

// -- zoom ---------------------------------------------------------------------------------------

function zoom(scale, at) {
  const pane = byId("graph"), svg = byId("graphSvg"), before = graph.scale;
  graph.scale = Math.max(0.05, Math.min(3, scale));
  if (!svg) return;
  svg.setAttribute("width", graph.seen.width * graph.scale);
  svg.setAttribute("height", graph.seen.height * graph.scale);
  svg.classList.toggle("small", graph.scale < 0.45);
  if (at) {
    const factor = graph.scale / before;
    pane.scrollLeft = (pane.scrollLeft + at.x) * factor - at.x;
    pane.scrollTop = (pane.scrollTop + at.y) * factor - at.y;
  }
}
const zoomed = (by, at) => { graph.auto = false; zoom(graph.scale * by, at); };
const middle = () => ({ x: byId("graph").clientWidth / 2, y: byId("graph").clientHeight / 2 });
const fitting = () => Math.min(1.15, (byId("graph").clientWidth - 4) / graph.seen.width);
function fit() {
  const pane = byId("graph");
  if (!graph.seen) return;
  graph.auto = true;
  zoom(fitting());
  pane.scrollLeft = (graph.seen.width * graph.scale - pane.clientWidth) / 2;
}

// -- what is chosen -----------------------------------------------------------------------------

// What the next pass makes of a node. Of a reshaped value that all read as it was before, that one.
function imagesIn(stage, node) {
  for (let each = node; ; [each] = stage.operands[each])
    if (stage.became[each].length || !["reshape", "transpose"].includes(stage.op[each])) return stage.became[each];
}

// A node in another stage: what it became, or what it came from.
function followed(node, from, to) {
  let nodes = [node];
  for (let at = from; at < to && nodes.length; at += 1) {
    const stage = stageOf(at, again);
    if (!stage) return null;
    nodes = nodes.flatMap((each) => imagesIn(stage, each));
  }
  for (let at = from; at > to && nodes.length; at -= 1) {
    const stage = stageOf(at - 1, again), wanted = new Set(nodes);
    if (!stage) return null;
    nodes = [...stage.became.keys()].filter((each) => stage.became[each].some((image) => wanted.has(image)));
  }
  return [...new Set(nodes)];
}

// The launches that compute a node, or null while another stage is being opened.
function launchesOf(stage, node) {
  const last = CALL.stages.length - 1;
  if (stage.number === last) return stage.launches[node];
  const ends = followed(node, stage.number, last), end = stageOf(last, again);
  return ends && end ? [...new Set(ends.flatMap((each) => end.launches[each]))] : null;
}

function toStage(number) {
  const next = Math.max(0, Math.min(CALL.stages.length - 1, number));
  const moved = graph.node === null ? null : followed(graph.node, graph.stage, next);
  graph.stage = next;
  graph.node = moved && moved.length ? moved[0] : null;
  graph.found = null;
  drawGraph();
  find();
  side();
}

function chooseNode(node) {
  const stage = current();
  if (!stage) return;
  graph.node = Number(node);
  const launches = launchesOf(stage, graph.node);
  graph.waiting = launches ? null : graph.node;
  if (launches && launches.length && !launches.includes(shown.step)) shown.step = launches[0];
  side();
  markGraph();
}

// Unfold what is around a node, and bring it into view.
function reveal(node) {
  const stage = current();
  if (!stage) return;
  for (let of = stage.groupOf[node]; of; of = of.parent) graph.unfolded.add(of.key);
  drawGraph();
  for (let box = graph.seen.of[node]; box && box.group && graph.seen.boxes.includes(box); box = graph.seen.of[node]) {
    graph.unfolded.add(box.group.key);
    drawGraph();
  }
  chooseNode(node);
  const box = graph.seen.of[node], pane = byId("graph");
  if (!box) return;
  if (graph.scale < READABLE) zoom(0.9);
  pane.scrollTo((box.x + box.width / 2) * graph.scale - pane.clientWidth / 2, (box.y + box.height / 2) * graph.scale - pane.clientHeight / 2);
}

function revealLaunch(number) {
  graph.stage = CALL.stages.length - 1;
  const stage = stageOf(graph.stage, () => revealLaunch(number)), step = CALL.steps[number];
  if (!stage || !step.nodes.length) return;
  const seen = step.nodes.filter((node) => stage.scalar[node] === null);
  reveal((seen.length ? seen : step.nodes)[seen.length - 1] ?? step.nodes[0]);
  byId("graph").scrollIntoView({ block: "center" });
}

function toggleFold(key) {
  const pane = byId("graph"), before = anchor(key), scale = graph.scale, focused = document.activeElement.closest("[data-fold]");
  if (!graph.unfolded.delete(key)) graph.unfolded.add(key);
  drawGraph();
  if (graph.auto) zoom(Math.max(READABLE, fitting()));
  const after = anchor(key), same = focused && pane.querySelector(`[data-fold="${CSS.escape(key)}"]`);
  if (same) same.focus({ preventScroll: true });
  if (!before || !after) return;
  pane.scrollLeft += after.x * graph.scale - before.x * scale;
  pane.scrollTop += after.y * graph.scale - before.y * scale;
}

// Where a group is seen, so that it stays there when it is unfolded.
function anchor(key) {
  const mine = [...graph.seen.frames, ...graph.seen.boxes].filter((box) => box.group && box.group.key === key);
  if (!mine.length) return null;
  const left = Math.min(...mine.map((box) => box.x)), right = Math.max(...mine.map((box) => box.x + box.width));
  return { x: (left + right) / 2, y: mine[0].y };
}

function deeper() {
  const stage = current();
  if (!stage) return;
  const folded = new Set(graph.seen.boxes.filter((box) => box.group).map((box) => box.group));
  folded.forEach((of) => graph.unfolded.add(of.key));
  drawGraph();
  if (graph.auto) zoom(Math.max(READABLE, fitting()));
}

// What is chosen has an outline: the node, and all that is computed by the same launch.
function markGraph() {
  const stage = graph.seen && current();
  if (!stage) return;
  const step = CALL.steps[shown.step], last = stage.number === CALL.stages.length - 1;
  const together = new Set(last && step ? step.nodes.filter((node) => stage.scalar[node] === null).map((node) => graph.seen.of[node]) : []);
  const found = graph.found && new Set(graph.found.map((node) => graph.seen.of[node]));
  graph.seen.boxes.forEach((box) => {
    const shape = box.shape.classList;
    shape.toggle("together", together.has(box));
    shape.toggle("hit", Boolean(found && found.has(box)));
    shape.toggle("pale", Boolean(found && !found.has(box)));
    shape.toggle("chosen", graph.node !== null && box === graph.seen.of[graph.node]);
  });
}

function find() {
  const stage = current(), wanted = byId("graphFind").value.trim().toLowerCase();
  if (!stage) return;
  graph.found = !wanted ? null : [...Array(stage.count).keys()].filter((node) => stage.scalar[node] === null
    && [stage.op[node], stage.type[node], stage.detail[node], stage.place[node][0], stage.place[node][1], `${stage.place[node][2]}:${stage.place[node][3]}`, `%${node}`].join(" ").toLowerCase().includes(wanted));
  byId("graphFound").textContent = graph.found ? `${whole(graph.found.length)} nodes; Enter shows the next` : "";
  graph.next = 0;
  markGraph();
}

// -- the panel of a node ------------------------------------------------------------------------

function nodePanel() {
  const stage = graph.node === null ? null : stageOf(graph.stage, side);
  if (!stage) return null;
  const node = graph.node, last = CALL.stages.length - 1, [module, phase, path, line, where] = stage.place[node];
  const link = (other, number = stage.number) => [h("a", { href: "#", "data-goto": other, "data-at": number }, `%${other}`),
    number === stage.number && stage.op[other] !== "input" ? ` ${stage.op[other]}` : number === stage.number ? ` ${stage.detail[other]}` : "", " "];
  const several = (list, number) => (list.length ? [list.slice(0, 12).map((other) => link(other, number)), list.length > 12 ? `and ${list.length - 12} more` : null] : "–");
  const launches = launchesOf(stage, node) || [], came = stage.number ? followed(node, stage.number, stage.number - 1) : null;
  const fact = (name, ...value) => h("tr", {}, h("td", {}, name), h("td", { class: "wrap" }, value));
  return h("div", { id: "node", class: "nodePanel" },
    h("h2", {}, `%${node} ${stage.op[node]} `, h("span", { class: "dim" }, graph.stage ? `after ${CALL.stages[graph.stage][0]}` : "as traced")),
    h("div", { class: "mono" }, h("b", {}, module), " ", phase, path ? ` ${path.split(/[\\/]/).pop()}:${line}${where ? ` in ${where}` : ""}` : ""),
    sourceOf(`${path}:${line}`) && h("pre", {}, sourceOf(`${path}:${line}`)),
    h("table", {},
      fact("result", h("span", { class: "mono" }, stage.type[node]), `, ${size(stage.bytes[node])}`), stage.detail[node] && fact(stage.op[node] === "input" ? "name" : "attributes", h("span", { class: "mono" }, stage.detail[node])),
      fact("reads", several(stage.operands[node])), fact("read by", several(stage.readers[node]), stage.outputs.has(node) ? stage.outputs.get(node).join("; ") : null),
      came && fact("before the pass", several(came, stage.number - 1)), stage.number < last && fact(`${CALL.stages[stage.number + 1][0]} makes it`, imagesIn(stage, node).length ? several(imagesIn(stage, node), stage.number + 1) : "nothing: it is gone"),
      fact(launches.length > 1 ? `computed ${launches.length} times, by` : "computed by", launches.length ? launches.slice(0, 12).map((n) => [h("a", { href: `#${n}`, "data-step": n }, CALL.steps[n].name), " "]) : "no launch")),
    decidedOf(stage, node));
}

function decidedOf(stage, node) {
  const next = CALL.stages[stage.number + 1], names = new Set(next ? [next[0]] : ["plan"]), mine = [];
  if (!stage.number) names.add(CALL.firstPass);
  for (const kind of kindsOf()) {
    const all = decisionsOf(kind, side);
    if (!all) return h("p", { class: "dim" }, "opening the ledger …");
    mine.push(...all.filter((d) => names.has(d.stage) && d.nodes.includes(node)));
  }
  const about = mine.filter((d) => !["strategy", "threads"].includes(d.kind));
  return about.length > 0 && h("details", { open: "" }, h("summary", {}, `${countOf(about.length, "decision")} about this node`),
    about.slice(0, 20).map((d) => h("div", {}, h("b", {}, d.kind), ` ${d.what}: ${d.why} `, h("span", { class: "dim" }, numbers(d)))));
}

function graphTip(at) {
  const stage = current();
  if (!stage) return "";
  if (at.dataset.edge !== undefined) {
    const { from, to, values } = graph.lines[at.dataset.edge], [first] = values;
    const name = (box) => (box.group ? titleOf(box.group) : `%${box.node} ${stage.op[box.node]}`);
    return `${name(from)} ${LANES[from.lane]} → ${name(to)} ${LANES[to.lane]}: `
      + (values.size > 1 ? `${values.size} values, ${size(total([...values], (n) => stage.bytes[n]))}` : `%${first} ${stage.type[first]}, ${size(stage.bytes[first])}`);
  }
  const box = graph.seen.boxes[at.dataset.box], launches = box.group ? [] : (launchesOf(stage, box.node) || []).map((n) => CALL.steps[n].name);
  return box.group ? `${box.group.kind === "module" ? box.group.key : box.group.name} ${LANES[box.lane]}: ${cellNote(stage, box.group, box.lane, box.group.all.filter((n) => stage.lane[n] === box.lane))}; a click unfolds it`
    : `%${box.node} ${stage.op[box.node]} ${stage.detail[box.node]} : ${stage.type[box.node]}, ${size(stage.bytes[box.node])}` + (launches.length ? `; in ${launches.slice(0, 4).join(", ")}` + (launches.length > 4 ? " …" : "") : "");
}

// -- what answers -------------------------------------------------------------------------------

function light(box) {
  const pane = byId("graphSvg");
  if (!pane) return;
  pane.classList.toggle("lit", Boolean(box));
  graph.lines.forEach((edge) => edge.path.classList.toggle("on", Boolean(box) && (edge.from === box || edge.to === box)));
}

byId("graph").addEventListener("mouseover", (event) => {
  const at = event.target.closest("[data-box]");
  light(at ? graph.seen.boxes[at.dataset.box] : null);
});
byId("graph").addEventListener("mouseleave", () => light(null));
byId("graph").addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const pane = byId("graph").getBoundingClientRect();
  zoomed(Math.exp(-event.deltaY / 300), { x: event.clientX - pane.left, y: event.clientY - pane.top });
}, { passive: false });
let pulled = null;
byId("graph").addEventListener("pointerdown", (event) => {
  if (event.button || event.target.closest("[data-box],[data-fold]")) return;
  const pane = byId("graph");
  pulled = { x: event.clientX + pane.scrollLeft, y: event.clientY + pane.scrollTop };
  pane.setPointerCapture(event.pointerId);
});
byId("graph").addEventListener("pointermove", (event) => {
  if (pulled) byId("graph").scrollTo(pulled.x - event.clientX, pulled.y - event.clientY);
});
["pointerup", "pointercancel"].forEach((name) => byId("graph").addEventListener(name, () => { pulled = null; }));
byId("graphStage").addEventListener("input", (event) => toStage(Number(event.target.value)));
byId("graphColour").addEventListener("input", (event) => { graph.colour = event.target.value; drawGraph(); });
byId("graphFind").addEventListener("input", find);
byId("graphFind").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !graph.found || !graph.found.length) return;
  reveal(graph.found[graph.next++ % graph.found.length]);
});
const BUTTONS = { in: () => zoomed(1.25, middle()), out: () => zoomed(1 / 1.25, middle()), fit,
  fold: () => { graph.unfolded = null; graph.fitted = false; drawGraph(); }, deeper };
