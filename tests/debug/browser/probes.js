// What tests ask of a page: functions over the picture of the graph.
globalThis.probes = {
  // Boxes that overlap, or that cross a frame.
  apart() {
    const over = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    const inside = (a, f) => a.x >= f.x && a.y >= f.y && a.x + a.width <= f.x + f.width && a.y + a.height <= f.y + f.height;
    const { boxes, frames } = graph.seen, wrong = [];
    boxes.forEach((a, i) => {
      boxes.slice(i + 1).forEach((b) => { if (over(a, b)) wrong.push([a.id, b.id]); });
      frames.forEach((f) => { if (over(a, f) && !inside(a, f)) wrong.push([a.id, f.group.key]); });
    });
    return wrong;
  },
  // Edges between folded modules of a lane: lane, from, to.
  chain: () => graph.lines.filter(({ from, to }) => from.lane === to.lane && from.group && to.group)
    .map(({ from, to }) => `${from.lane} ${from.group.key} ${to.group.key}`),
  elements: () => document.querySelectorAll("#graph *").length,
  // Of a graph that is unfolded as a whole: nodes without a box, boxes that are no node, nodes with two boxes.
  unseen() {
    const stage = current(), { of, boxes } = graph.seen;
    return [of.filter((box, node) => stage.scalar[node] === null && !box).length, boxes.filter((box) => box.group).length,
      boxes.length - new Set(boxes.map((box) => box.node)).size];
  },
  // Of the same: the pairs of nodes that an edge joins, but constants.
  pairs: () => [...new Set(graph.lines.filter((e) => e.from.node >= 0 && e.to.node >= 0).map((e) => `${e.from.node} ${e.to.node}`))].sort(),
  decided: (kind) => grouped(decisionsOf(kind, () => null)).reduce((sum, group) => sum + group.all.length, 0),
  arrived: (stage) => graph.stage === stage && STAGES.has(`${shown.call} ${stage}`) && graph.waiting === null,
};
