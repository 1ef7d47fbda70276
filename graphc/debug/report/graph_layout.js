// The graph of a stage as boxes: modules that fold and unfold, in a lane for each phase. Forward and
// update flow downward, backward upward, so a module's gradient stands beside it. Pure: nothing is drawn.

const LANES = ["forward", "backward", "update"];
const NODE = { height: 31, gap: 9, least: 46, most: 190 }, CELL = { width: 180, height: 34 };
const ROW_GAP = 13, HEAD = 21, PAD = 12, LANE_GAP = 64;
const MANY_OWN = 30, PART = 150; // nodes of one module up to which each is a box; of a group of a line

// -- a stage ------------------------------------------------------------------------------------

const STAGES = new Map(); // by call and number

// A stage as arrays by node, or null while it is being opened.
function stageOf(number, then) {
  const key = `${shown.call} ${number}`;
  if (STAGES.has(key)) return STAGES.get(key);
  const texts = asked("graph texts", then), columns = asked(`graph ${number}`, then);
  if (!texts || !columns) return null;
  const count = columns.op.length, detail = summed(columns.detail), place = summed(columns.place);
  const stage = {
    number, count, texts, op: columns.op.map((i) => texts.ops[i]), type: columns.type.map((i) => texts.types[i]),
    bytes: columns.type.map((i) => texts.bytes[i]), detail: detail.map((i) => texts.details[i]),
    place: place.map((i) => texts.places[i]), operands: operandsOf(columns, count), results: columns.results,
    parts: columns.parts, outputs: new Map(), fresh: new Set(summed(columns.new || [])), gone: new Set(summed(columns.gone || [])),
    became: columns.became ? imagesOf(columns.became) : null,
  };
  const updates = summed(columns.updates);
  summed(columns.outputs).forEach((node, i) => stage.outputs.set(node, [...(stage.outputs.get(node) || []),
    `output ${i}` + (updates[i] < 0 ? "" : `, the new ${stage.detail[updates[i]]}`)]));
  stage.readers = Array.from({ length: count }, () => []);
  stage.operands.forEach((list, node) => list.forEach((operand) => {
    const readers = stage.readers[operand];
    if (readers[readers.length - 1] !== node) readers.push(node);
  }));
  stage.owner = new Int32Array(count).fill(-1);
  stage.parts.forEach(([first, size, owner]) => stage.owner.fill(owner, first, first + size));
  stage.lane = lanesOf(stage);
  stage.scalar = scalarsOf(stage);
  stage.flows = [...stage.bytes]; // bytes that come along an edge: what is spread has those of what it spreads
  stage.op.forEach((op, node) => { if (op === "broadcast") stage.flows[node] = stage.flows[stage.operands[node][0]]; });
  stage.launches = number === CALL.stages.length - 1 ? launchesByNode(count) : null;
  stage.root = treeOf(stage);
  STAGES.set(key, stage);
  return stage;
}

function operandsOf(columns, count) {
  // The reverse of graph_data.py: near operands by their distance, others from the last one like it.
  const last = new Map(), found = new Array(count);
  let at = 0;
  for (let node = 0; node < count; node += 1) {
    const list = [];
    for (let position = 0; position < columns.arity[node]; position += 1) {
      const code = columns.operands[at++];
      if (code % 2 === 0) { list.push(node - code / 2); continue; }
      const zigzag = (code - 1) / 2, key = `${columns.op[node]} ${position}`;
      const operand = (last.get(key) || 0) + (zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2);
      last.set(key, operand);
      list.push(operand);
    }
    found[node] = list;
  }
  return found;
}

function imagesOf(coded) {
  let last = 0;
  return coded.map((moved) => {
    const images = (Array.isArray(moved) ? moved : [moved]).map((m) => last + m);
    if (images.length) last = images[0];
    return images;
  });
}

function lanesOf(stage) {
  // A node inside of a loop or branch is where that is.
  const lane = new Int8Array(stage.count);
  for (let node = 0; node < stage.count; node += 1)
    lane[node] = stage.owner[node] >= 0 ? lane[stage.owner[node]] : Math.max(0, LANES.indexOf(stage.place[node][1]));
  return lane;
}

function scalarsOf(stage) {
  // Constants of one number, and what only spreads them, are told in what reads them.
  const scalar = new Array(stage.count).fill(null);
  for (let node = 0; node < stage.count; node += 1) {
    const [operand] = stage.operands[node];
    if (stage.outputs.has(node)) continue;
    if (stage.op[node] === "constant") {
      const match = /\[([^[\],]*)\]$/.exec(stage.detail[node]);
      scalar[node] = match ? match[1] : "const";
    } else if (["broadcast", "reshape", "cast"].includes(stage.op[node]) && scalar[operand] !== null)
      scalar[node] = scalar[operand];
  }
  return scalar;
}

function launchesByNode(count) {
  const by = Array.from({ length: count }, () => []);
  CALL.steps.forEach((step) => step.nodes.forEach((node) => by[node].push(step.n)));
  return by;
}

// -- the tree of modules ------------------------------------------------------------------------

// A group: a module, a loop with what runs in it, or some nodes of one line. `single`: it lies in one lane.
const group = (key, name, kind, parent) => ({ key, name, kind, parent, single: kind !== "module", lane: 0,
  children: new Map(), own: [], all: [], lanes: [0, 0, 0], runs: null });

function treeOf(stage) {
  const root = group("", "", "module", null), modules = new Map([["", root]]), regions = new Map();
  const moduleOf_ = (path) => {
    if (modules.has(path)) return modules.get(path);
    const cut = path.lastIndexOf("."), parent = moduleOf_(cut < 0 ? "" : path.slice(0, cut));
    const made = group(path, path.slice(cut + 1), "module", parent);
    modules.set(path, made);
    parent.children.set(path, made);
    return made;
  };
  for (const [, , owner] of stage.parts) {
    if (owner < 0 || regions.has(owner)) continue;
    const outer = stage.owner[owner] >= 0 ? regions.get(stage.owner[owner]) : moduleOf_(stage.place[owner][0]);
    const made = group(`${outer.key}/${stage.op[owner]} ${owner}`, stage.op[owner], "region", outer);
    made.lane = stage.lane[owner];
    made.node = owner;
    regions.set(owner, made);
    outer.children.set(made.key, made);
  }
  stage.groupOf = new Array(stage.count);
  for (let node = 0; node < stage.count; node += 1) {
    const own = regions.get(node) || (stage.owner[node] >= 0 ? regions.get(stage.owner[node]) : moduleOf_(stage.place[node][0]));
    stage.groupOf[node] = own;
    if (!regions.has(node)) own.own.push(node);
    for (let each = own; each; each = each.parent) {
      each.all.push(node);
      if (stage.scalar[node] === null) each.lanes[stage.lane[node]] += 1;
    }
  }
  stage.modules = modules;
  return root;
}

// What a group is drawn as when it is unfolded: its children, and its own nodes, or groups of them.
function itemsOf(stage, of) {
  if (of.items) return of.items;
  const items = [...of.children.values()].filter((child) => child.lanes.some(Boolean)).map((child) => ({ group: child, node: -1 }));
  for (let lane = 0; lane < 3; lane += 1) {
    const own = of.own.filter((node) => stage.lane[node] === lane && stage.scalar[node] === null);
    const few = of.kind === "run" || (of.kind === "region" && own.length <= PART) || own.length <= (of.parent || !of.children.size ? MANY_OWN : 8);
    items.push(...(few ? own.map((node) => ({ group: null, node })) : runs(stage, of, own, lane)));
  }
  of.items = items;
  return items;
}

function runs(stage, of, own, lane) {
  // Nodes of one line that follow each other are a group; a long one is cut into parts.
  const cut = [];
  own.forEach((node) => {
    const [, , path, line] = stage.place[node], key = `${path}:${line}`, last = cut[cut.length - 1];
    if (last && last.key === key && last.nodes.length < PART) last.nodes.push(node);
    else cut.push({ key, nodes: [node] });
  });
  const groups = cut.map(({ key, nodes }) => {
    const made = group(`${of.key}|${LANES[lane]} ${nodes[0]}`, nodes.every((node) => stage.op[node] === "input") ? "inputs" : key === ":" ? "no line" : key.split(/[\\/]/).pop(), "run", of);
    made.lane = lane;
    made.own = made.all = nodes;
    made.lanes[lane] = nodes.length;
    made.source = key;
    return made;
  });
  const boxes = groups.length > 4 * PART ? chunked(groups, of, lane) : groups;
  return boxes.map((each) => (each.all.length === 1 ? { group: null, node: each.all[0] } : { group: each, node: -1 }));
}

function chunked(groups, of, lane) {
  const chunks = [];
  for (let first = 0; first < groups.length; first += PART) {
    const some = groups.slice(first, first + PART), all = some.flatMap((each) => each.all);
    const made = group(`${of.key}|${LANES[lane]} part ${first}`, `part ${chunks.length + 1}`, "run", of);
    made.lane = lane;
    made.own = made.all = all;
    made.lanes[lane] = all.length;
    chunks.push(made);
  }
  return chunks;
}

const laneRange = (lanes) => {
  const used = [0, 1, 2].filter((lane) => lanes[lane]);
  return [used[0], used[used.length - 1]];
};

// -- placing ------------------------------------------------------------------------------------

// Sizes and heights, from the inside to the outside. Gives the level: items with y and height from its top, widths of lanes.
function placed(stage, of, unfolded, label) {
  const items = itemsOf(stage, of).map((item) => ({ ...item }));
  items.forEach((item, i) => {
    item.index = i;
    const own = item.group;
    item.lanes = own ? (own.single ? [0, 1, 2].map((lane) => (lane === own.lane ? 1 : 0)) : own.lanes) : [0, 1, 2].map((lane) => (lane === stage.lane[item.node] ? 1 : 0));
    item.single = !own || own.single;
    item.lane = laneRange(item.lanes)[0];
    if (own && unfolded.has(own.key)) {
      item.level = placed(stage, own, unfolded, label);
      item.height = item.level.height + HEAD + PAD;
    } else item.height = own ? CELL.height : NODE.height;
    item.widths = widthsOf(item, item.level, stage, label);
  });
  const before = order(stage, items, of);
  const top = [0, 0, 0], widths = [0, 0, 0], bands = [];
  const ranks = [];
  items.forEach((item) => (ranks[item.rank] ||= []).push(item));
  ranks.filter(Boolean).forEach((rank) => {
    for (let lane = 0; lane < 3; lane += 1) {
      const band = rank.filter((item) => item.single && item.lane === lane);
      if (!band.length) continue;
      const height = Math.max(...band.map((item) => item.height));
      band.forEach((item) => { item.y = top[lane] + (height - item.height) / 2; });
      top[lane] += height + ROW_GAP;
      widths[lane] = Math.max(widths[lane], total(band, (item) => item.widths[lane] + NODE.gap) - NODE.gap);
      bands.push(band);
    }
    rank.filter((item) => !item.single).forEach((item) => {
      const [first, last] = laneRange(item.lanes);
      item.y = Math.max(...top.slice(first, last + 1));
      top.fill(item.y + item.height + ROW_GAP, first, last + 1);
      item.widths.forEach((width, lane) => { widths[lane] = Math.max(widths[lane], width); });
      bands.push([item]);
    });
  });
  return { group: of, items, bands, before, widths, height: Math.max(0, ...top.map((y) => y - ROW_GAP)) };
}

function widthsOf(item, level, stage, label) {
  const widths = [0, 0, 0], [first, last] = laneRange(item.lanes);
  if (level) {
    level.widths.forEach((width, lane) => { widths[lane] = width; });
    widths[first] = Math.max(widths[first] + PAD, item.single ? CELL.width : 0);
    widths[last] += PAD;
  } else if (item.group) item.lanes.forEach((n, lane) => { if (n) widths[lane] = CELL.width; });
  else {
    const [name, type] = label(stage, item.node), round = stage.op[item.node] === "input" ? 12 : 0;
    widths[item.lane] = Math.min(NODE.most, Math.max(NODE.least, 14 + round + 6.7 * Math.max(name.length, 0.82 * type.length)));
  }
  return widths;
}

// Ranks: an item stands below what it reads, in the lane of backward above. Edges that would close a circle
// do not count. Gives for each item those above it.
function order(stage, items, of) {
  const at = new Int32Array(stage.count).fill(-1);
  items.forEach((item) => (item.group ? item.group.all : [item.node]).forEach((node) => { at[node] = item.index; }));
  const below = items.map(() => new Set());
  of.all.forEach((node) => stage.operands[node].forEach((operand) => {
    const from = at[operand], to = at[node];
    if (from < 0 || to < 0 || from === to || stage.lane[node] !== stage.lane[operand]) return;
    if (stage.lane[node] === 1) below[to].add(from); else below[from].add(to);
  }));
  const first = (item) => {
    const nodes = item.group ? item.group.all : [item.node], forward = nodes.find((node) => stage.lane[node] === 0);
    return forward === undefined ? stage.count + (stage.lane[nodes[0]] === 1 ? -nodes[0] : nodes[0]) : forward;
  };
  const starts = items.map(first), byStart = items.map((_, i) => i).sort((a, b) => starts[a] - starts[b]);
  const sorted = [], state = new Uint8Array(items.length), kept = items.map(() => []);
  for (const start of byStart) { // depth first, without recursion: graphs may be deep
    if (state[start]) continue;
    const stack = [[start, [...below[start]].sort((a, b) => starts[a] - starts[b])]];
    state[start] = 1;
    while (stack.length) {
      const [here, rest] = stack[stack.length - 1];
      if (!rest.length) { state[here] = 2; sorted.push(here); stack.pop(); continue; }
      const next = rest.pop();
      if (state[next] === 1) continue; // it would close a circle
      kept[here].push(next);
      if (!state[next]) { state[next] = 1; stack.push([next, [...below[next]].sort((a, b) => starts[a] - starts[b])]); }
    }
  }
  sorted.reverse();
  const before = items.map(() => []), rank = new Int32Array(items.length), free = new Uint8Array(items.length).fill(1);
  sorted.forEach((here) => kept[here].forEach((next) => {
    before[next].push(here);
    rank[next] = Math.max(rank[next], rank[here] + 1);
  }));
  sorted.forEach((here) => { free[here] = before[here].every((above) => free[above] && !items[above].group) ? 1 : 0; });
  [...sorted].reverse().forEach((here) => { // what is only read stands just above its first reader
    if (free[here] && !items[here].group && kept[here].length) rank[here] = Math.max(rank[here], Math.min(...kept[here].map((next) => rank[next])) - 1);
  });
  items.forEach((item, i) => { item.rank = rank[i]; item.start = starts[i]; });
  return before;
}

// -- boxes --------------------------------------------------------------------------------------

// All that is seen: boxes with x, y, width, height, and for each node the box that stands for it.
function picture(stage, unfolded, label) {
  const level = placed(stage, stage.root, unfolded, label);
  const used = [0, 1, 2].filter((lane) => stage.root.lanes[lane]);
  const spans = [[0, 0], [0, 0], [0, 0]];
  let x = PAD;
  used.forEach((lane) => { spans[lane] = [x, x + Math.max(level.widths[lane], CELL.width)]; x = spans[lane][1] + LANE_GAP; });
  const seen = { boxes: [], frames: [], of: new Array(stage.count).fill(null), lanes: used.map((lane) => ({ lane, from: spans[lane][0], to: spans[lane][1] })),
    width: x - LANE_GAP + PAD, height: level.height + 30 + PAD };
  emit(stage, level, spans, 30, seen);
  return seen;
}

function emit(stage, level, spans, top, seen) {
  const centre = new Map();
  const above = (item) => {
    const known = level.before[item.index].map((i) => centre.get(i)).filter((x) => x !== undefined);
    return known.length ? total(known, (x) => x) / known.length : (spans[item.lane][0] + spans[item.lane][1]) / 2;
  };
  level.bands.forEach((band) => {
    if (!band[0].single) {
      centre.set(band[0].index, (spans[band[0].lane][0] + spans[band[0].lane][1]) / 2);
      return module_(stage, band[0], spans, top, seen);
    }
    const lane = band[0].lane, wide = total(band, (item) => item.widths[lane] + NODE.gap) - NODE.gap;
    const keyed = band.map((item) => [above(item), item]).sort((a, b) => a[0] - b[0] || a[1].start - b[1].start);
    let x = (spans[lane][0] + spans[lane][1] - wide) / 2;
    if (keyed.length === 1) x = Math.max(spans[lane][0], Math.min(spans[lane][1] - wide, keyed[0][0] - wide / 2));
    keyed.forEach(([, item]) => {
      const width = item.widths[lane], box = { x, y: top + item.y, width, height: item.height, lane, node: item.node, group: item.group };
      centre.set(item.index, x + width / 2);
      x += width + NODE.gap;
      if (!item.level) return seenAs(box, item, seen);
      const inner = [[0, 0], [0, 0], [0, 0]];
      inner[lane] = [box.x + PAD, box.x + width - PAD];
      seen.frames.push(box);
      if (item.group.node !== undefined) seen.of[item.group.node] = box;
      emit(stage, item.level, inner, box.y + HEAD, seen);
    });
  });
}

function seenAs(box, item, seen) {
  seen.boxes.push(box);
  if (item.group) item.group.all.forEach((node) => { seen.of[node] = box; });
  else seen.of[item.node] = box;
}

function module_(stage, item, spans, top, seen) {
  const [first, last] = laneRange(item.lanes), y = top + item.y;
  const frame = { x: spans[first][0], y, width: spans[last][1] - spans[first][0], height: item.height, lane: first, node: -1, group: item.group };
  if (item.level) {
    const inner = spans.map((span) => [...span]);
    inner[first][0] += PAD;
    inner[last][1] -= PAD;
    seen.frames.push(frame);
    return emit(stage, item.level, inner, y + HEAD, seen);
  }
  const cells = [0, 1, 2].map((lane) => item.lanes[lane] && {
    x: (spans[lane][0] + spans[lane][1] - CELL.width) / 2, y, width: CELL.width, height: CELL.height, lane, node: -1, group: item.group });
  cells.filter(Boolean).forEach((cell) => seen.boxes.push(cell));
  item.group.all.forEach((node) => { seen.of[node] = cells[stage.lane[node]] || null; });
}

// Edges between boxes that are seen, equal ones as one. What a module reads of its own parameters is inside of it.
function edges(stage, seen) {
  const found = new Map();
  seen.boxes.forEach((box, i) => { box.id = i; });
  seen.frames.forEach((box, i) => { box.id = seen.boxes.length + i; });
  for (let node = 0; node < stage.count; node += 1) {
    const to = seen.of[node];
    if (!to || stage.scalar[node] !== null) continue;
    for (const operand of stage.operands[node]) {
      const from = seen.of[operand];
      if (!from || from === to || stage.scalar[operand] !== null || (stage.op[operand] === "input" && from.node !== operand)) continue;
      const key = from.id * 1e6 + to.id;
      if (!found.has(key)) found.set(key, { from, to, values: new Set() });
      found.get(key).values.add(operand);
    }
  }
  return [...found.values()];
}

// The unfolding that a graph opens with: along modules that hold most of what is around them.
function opening(stage) {
  const unfolded = new Set([""]);
  for (let of = stage.root; of;) {
    const most = [...of.children.values()].filter((child) => !child.single).sort((a, b) => b.all.length - a.all.length)[0];
    of = most && most.all.length > 0.5 * of.all.length ? most : null;
    if (of) unfolded.add(of.key);
  }
  return unfolded;
}
