// The ledger: decisions, opened kind by kind as they are needed, alike ones as one row.

const KINDS_OPENED = new Map(); // by call and kind: its decisions
const ROWS = 200;

const kindsOf = () => Object.keys(CALL.ledger);

// The decisions of a kind, or null while it is being opened: `then` is called when it is.
function decisionsOf(kind, then) {
  const key = `${shown.call} ${kind}`;
  if (KINDS_OPENED.has(key)) return KINDS_OPENED.get(key);
  const columns = asked(`ledger ${kind}`, then);
  if (!columns) return null;
  const numbers = Object.entries(columns.numbers), word = (name, row) => columns.texts[columns[name][row]];
  const decisions = columns.what.map((_, row) => ({
    kind, what: word("what", row), why: word("why", row), line: word("line", row), module: word("module", row),
    phase: word("phase", row), within: word("within", row), stage: word("stage", row),
    nodes: summed(columns.nodes[row]), steps: columns.steps[row],
    numbers: Object.fromEntries(numbers.filter(([, of]) => row in of).map(([name, of]) => [name, of[row]])),
  }));
  KINDS_OPENED.set(key, decisions);
  return decisions;
}

const alike = (d) => [d.kind, d.what.replace(/ ?%[\w.]+/g, "").replace(/\bk\d+_/g, ""), d.why.replace(/\d+(\.\d+)?(e[+-]?\d+)?/g, "#"),
  d.module.replace(/(^|\.)\d+(?=\.|$)/g, "$1*"), d.phase, d.module ? "" : d.line].join("\n");
const bytesOf = (d) => (typeof d.numbers.bytes === "number" ? d.numbers.bytes : 0);

function grouped(decisions) {
  const groups = new Map();
  decisions.forEach((d) => {
    const key = alike(d);
    if (!groups.has(key)) groups.set(key, { key, kind: d.kind, all: [], bytes: 0 });
    const group = groups.get(key);
    group.all.push(d);
    group.bytes += bytesOf(d);
  });
  return [...groups.values()];
}

function decisions() {
  const kinds = kindsOf(), count = total(Object.values(CALL.ledger), (n) => n);
  const wanted = byId("ledgerFilter").value.toLowerCase();
  put("kinds", [["", "all", count], ...kinds.map((kind) => [kind, kind, CALL.ledger[kind]])].map(([kind, name, n]) =>
    h("button", { "data-kind": kind, class: kind === shown.kind ? "on" : "", "aria-pressed": kind === shown.kind }, name, " ", h("small", {}, whole(n)))));
  const text = (d) => [d.kind, d.what, d.why, d.line, d.module, d.phase, d.within].join(" ").toLowerCase();
  const groups = [];
  let matching = 0, missing = false;
  for (const kind of shown.kind ? [shown.kind] : kinds) { // a kind is opened where its rows are needed
    if (groups.length >= shown.rows && !wanted) break;
    const all = decisionsOf(kind, decisions);
    if (!all) { missing = true; break; }
    const chosen = wanted ? all.filter((d) => text(d).includes(wanted)) : all;
    matching += chosen.length;
    groups.push(...grouped(chosen).sort((a, b) => b.bytes - a.bytes || b.all.length - a.all.length));
  }
  if (!wanted) matching = shown.kind ? CALL.ledger[shown.kind] : count;
  put("decided", missing ? "opening …" : `${whole(matching)} of ${whole(count)} decisions`);
  const rows = groups.slice(0, shown.rows).flatMap((group) => shown.open.has(group.key) && group.all.length > 1
    ? [groupRow(group, true), ...group.all.slice(0, ROWS).map((d) => decisionRow(d, true))]
    : [group.all.length > 1 ? groupRow(group, false) : decisionRow(group.all[0], false)]);
  put("ledger", h("table", {}, h("tr", {}, ["decision", "what", "why", "numbers", "where"].map((t) => h("th", {}, t))), rows),
    (groups.length > shown.rows || (!wanted && !shown.kind && groups.length >= shown.rows))
      && h("p", {}, h("button", { "data-more": "", class: "more" }, "more")));
}

const placeOf = (d) => [d.line, d.module, d.phase === "forward" ? "" : d.phase].filter(Boolean).join(" ");

function groupRow(group, open) {
  const first = group.all[0], places = new Set(group.all.map((d) => d.module)).size;
  return h("tr", { "data-alike": group.key, tabindex: 0, "aria-expanded": open }, h("td", {}, `${open ? "▾" : "▸"} ${group.kind}`),
    h("td", { class: "mono wrap" }, h("b", {}, `${group.all.length} × `), first.what.replace(/ ?%[\w.]+/g, "").replace(/\bk\d+_/g, "")),
    h("td", { class: "wrap" }, first.why), h("td", { class: "wrap" }, group.bytes ? `${size(group.bytes)} in all` : ""),
    h("td", { class: "mono wrap" }, places > 1 ? placeOf({ ...first, module: first.module.replace(/(^|\.)\d+(?=\.|$)/g, "$1*") }) : placeOf(first)));
}

function decisionRow(d, inside) {
  const step = d.steps.length ? d.steps[0] : null;
  return h("tr", { "data-step": step, tabindex: step === null ? null : 0, class: inside ? "inside" : "" }, h("td", {}, inside ? "" : d.kind),
    h("td", { class: "mono wrap" }, d.what + (d.within ? ` in ${d.within}` : "")), h("td", { class: "wrap" }, d.why),
    h("td", { class: "wrap" }, numbers(d)), h("td", { class: "mono wrap" }, placeOf(d)));
}

const numbers = (d) => Object.entries(d.numbers).map(([name, value]) =>
  name === "bytes" ? size(value) : `${name} ${typeof value === "number" ? tenth(value) : value}`).join(", ");

// Which decisions are about a launch: those of all kinds, what matters first.
function why(step) {
  const mine = [];
  for (const kind of kindsOf()) {
    const all = decisionsOf(kind, side);
    if (!all) return h("p", { class: "dim" }, "opening the ledger …");
    mine.push(...all.filter((d) => d.steps.includes(step.n)));
  }
  const told = (list) => list.map((d) => h("div", {}, h("b", {}, d.kind), ` ${d.what}: ${d.why} `, h("span", { class: "dim" }, numbers(d))));
  const rewritten = mine.filter((d) => d.kind === "rewritten"), others = mine.filter((d) => d.kind !== "rewritten");
  const small = (d) => (0 < bytesOf(d) && bytesOf(d) <= 16 ? 1 : 0); // of one number: they come last
  others.sort((a, b) => small(a) - small(b));
  return [others.length > 0 && h("details", { open: "", id: "why" }, h("summary", {}, `${others.length} decisions`), told(others)),
    rewritten.length > 0 && h("details", { id: "rewritten" }, h("summary", {}, `${rewritten.length} rules fired for what it computes`), told(rewritten))];
}
