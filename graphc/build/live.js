// A built function that a page runs: batches of rows of the data, the curve of its first result, its state drawn.
const TILE = 128, MOST_DRAWN = 65536, MILLISECONDS = 24, CURVE = { width: 640, height: 180, left: 44, bottom: 16 };

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const isNumber = (type) => type === "F32" || type === "F64";
const short = (x) => (x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5) ? String(Number(x.toPrecision(4))) : x.toExponential(2));

// What runs: no element of the page is touched here.
class Session {
  constructor(built, file, data, settings) {
    Object.assign(this, { built, file, data, settings });
    this.batch = settings.batch;
    this.numbers = { ...settings.numbers };
    this.startOver();
  }

  startOver() {
    this.built.init(this.file);
    Object.assign(this, { curve: [], epoch: 0, at: 0, seed: 1, rows: new Uint32Array(0) });
    this.order = Uint32Array.from({ length: this.settings.rows }, (_, row) => row);
    this.shuffle();
  }

  // From 0 up to 1 (excluded): Marsaglia's xorshift of 32 bits.
  drawn() {
    for (const by of [13, -17, 5]) this.seed ^= by > 0 ? this.seed << by : this.seed >>> -by;
    return (this.seed >>> 0) / 2 ** 32;
  }

  shuffle() {
    for (let i = this.order.length - 1; i > 0; i--) {
      const j = Math.floor(this.drawn() * (i + 1));
      [this.order[i], this.order[j]] = [this.order[j], this.order[i]];
    }
    this.at = 0;
    this.epoch++;
  }

  // The arguments of the next call. Rows that fill no batch are left out, and come in another order again.
  next() {
    if (!this.settings.cuts) return this.data.map((array) => array.slice());
    if (this.at + this.batch > this.order.length) this.shuffle();
    this.rows = this.order.slice(this.at, this.at + this.batch);
    this.at += this.batch;
    return this.data.map((all, number) => {
      const width = this.settings.widths[number], array = new all.constructor(this.batch * width);
      this.rows.forEach((row, i) => array.set(all.subarray(row * width, (row + 1) * width), i * width));
      return array;
    });
  }

  // One call; its results. Raises an Error where it refuses.
  step() {
    const { size, sizes } = this.settings, given = { ...sizes, ...this.numbers };
    if (size) given[size] = this.batch;
    const results = this.built.call(given, ...this.next());
    this.curve.push(results.length && results[0].length === 1 ? Number(results[0][0]) : NaN);
    return results;
  }
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The curve, as many points as there are pixels: the mean of those that fall on one.
function drawCurve(canvas, curve) {
  const context = canvas.getContext("2d"), { width, height, left, bottom } = CURVE, style = getComputedStyle(canvas);
  context.clearRect(0, 0, width, height);
  const across = width - left, points = [];
  for (let x = 0; x < Math.min(across, curve.length); x++) {
    const count = Math.min(across, curve.length);
    const part = curve.slice(Math.floor((x * curve.length) / count), Math.floor(((x + 1) * curve.length) / count)).filter(Number.isFinite);
    if (part.length) points.push([left + (count > 1 ? (x * (across - 1)) / (count - 1) : 0), part.reduce((a, b) => a + b, 0) / part.length]);
  }
  if (!points.length) return;
  const low = Math.min(0, ...points.map(([, y]) => y)), high = Math.max(...points.map(([, y]) => y)) || 1;
  const up = (y) => 6 + (height - bottom - 6) * (1 - (y - low) / (high - low || 1));
  context.fillStyle = style.color;
  context.strokeStyle = style.color;
  context.globalAlpha = 0.55;
  context.font = "10px system-ui, sans-serif";
  for (const y of [low, (low + high) / 2, high]) context.fillText(short(y), 2, up(y) + 3);
  context.fillText(`${curve.length} calls`, width - 60, height - 4);
  context.globalAlpha = 1;
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, up(y)) : context.moveTo(x, up(y))));
  context.lineWidth = 1.5;
  context.stroke();
}

// An array as a picture: a pixel for each element, blue below 0, red above.
function drawArray(canvas, array) {
  const { width, height } = canvas, picture = new ImageData(width, height);
  let most = 0;
  for (const x of array) if (Math.abs(x) > most) most = Math.abs(x);
  for (let i = 0; i < Math.min(array.length, width * height); i++) {
    const part = most ? array[i] / most : 0, weak = Math.round(255 * (1 - Math.abs(part)));
    picture.data.set(part < 0 ? [weak, weak, 255, 255] : [255, weak, weak, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return most;
}

class View {
  constructor(root, session, told) {
    Object.assign(this, { root, session, runs: false });
    const { built, settings } = session, button = (text, then) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", then);
      return made;
    };
    this.run = button("train", () => this.turn());
    this.status = element("output", {});
    const once = button("one call", () => { this.called(0); this.draw(); });
    const again = button("start over", () => { session.startOver(); this.draw(); });
    const save = button("save the state", () => this.save());
    const bar = element("p", { class: "liveBar" }, this.run, once, again, save);
    if (settings.size) {
      const slider = element("input", { type: "range", min: Math.max(settings.least, 1), max: settings.most, value: session.batch, "aria-label": settings.size });
      const label = element("b", {}, String(session.batch));
      slider.addEventListener("input", () => { session.batch = Number(slider.value); label.textContent = slider.value; });
      bar.append(element("label", {}, `${settings.size} `, slider, " ", label));
    }
    for (const name of built.tables.numbers) bar.append(this.number(name, session.numbers[name], (value) => { session.numbers[name] = value; }));
    const single = built.tables.fields.filter(({ type, shape }) => isNumber(type) && countOf(shape) === 1);
    this.inputs = single.map(({ name, key }) => {
      const made = this.number(key, built.field(name)[0], (value) => { built.field(name)[0] = value; });
      bar.append(made);
      return { name, input: made.querySelector("input") };
    });
    this.curve = element("canvas", { class: "liveCurve", width: CURVE.width, height: CURVE.height, role: "img", "aria-label": "the first result of each call" });
    this.tiles = built.tables.fields.filter(({ type, shape }) => isNumber(type) && countOf(shape) > 1).map((field) => this.tile(field));
    root.replaceChildren(element("p", { class: "dim" }, told), bar, element("p", {}, this.status), this.curve,
      element("div", { class: "liveTiles" }, ...this.tiles.map(({ figure }) => figure)));
    this.draw();
  }

  number(label, value, then) {
    const input = element("input", { type: "number", step: "any", value, "aria-label": label });
    input.addEventListener("change", () => { if (Number.isFinite(input.valueAsNumber)) then(input.valueAsNumber); });
    return element("label", {}, `${label} `, input);
  }

  tile({ name, key, shape }) {
    const across = shape.length > 1 ? countOf(shape.slice(1)) : Math.min(shape[0], TILE);
    const down = Math.min(Math.ceil(countOf(shape) / across), Math.max(1, Math.floor(MOST_DRAWN / across)));
    const canvas = element("canvas", { width: across, height: down, role: "img", "aria-label": key }), range = element("small", {});
    return { name, canvas, range, figure: element("figure", {}, canvas, element("figcaption", {}, `${key} [${shape.join(", ")}] `, range)) };
  }

  turn() {
    this.runs = !this.runs;
    this.run.textContent = this.runs ? "pause" : "train";
    if (this.runs) this.go();
  }

  // Calls for some milliseconds; the page draws and answers between.
  go() {
    if (!this.runs) return;
    if (!this.called(MILLISECONDS)) this.turn();
    this.draw();
    setTimeout(() => this.go(), 0);
  }

  called(milliseconds) {
    const end = performance.now() + milliseconds;
    try {
      do this.session.step(); while (performance.now() < end);
      this.refused = "";
    } catch (error) {
      this.refused = error.message;
    }
    return !this.refused;
  }

  draw() {
    const { curve, epoch, built } = this.session, last = curve[curve.length - 1];
    const result = Number.isFinite(last) ? `, result ${short(last)}` : "";
    this.status.textContent = this.refused || `${curve.length} calls, epoch ${epoch}${result}`;
    drawCurve(this.curve, curve);
    for (const { name, canvas, range } of this.tiles) range.textContent = `to ±${short(drawArray(canvas, built.field(name)))}`;
    for (const { name, input } of this.inputs) if (document.activeElement !== input) input.value = built.field(name)[0];
  }

  save() {
    const url = URL.createObjectURL(new Blob([this.session.built.toBytes()]));
    element("a", { href: url, download: `${this.session.built.tables.name}.safetensors` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
}

// Fills an element of the page; the session.
async function live(root, everyTables, parts, settings) {
  try {
    const isFused = fused(await unpacked(parts.probe)), tables = isFused ? everyTables.relaxed : everyTables.computed;
    const [code, file, proof, rows] = await Promise.all([isFused ? parts.relaxed : parts.computed, parts.state, parts.proof, parts.data].map(unpacked));
    const built = await load(code, tables);
    built.init(file);
    const wrong = differences(built, settings.calls, proof);
    let at = 0;
    const data = tables.arguments.map(({ type }, number) => {
      const begin = at;
      at += settings.counts[number] * KINDS[type].BYTES_PER_ELEMENT;
      return new KINDS[type](rows.slice(begin, at).buffer);
    });
    const session = new Session(built, file, data, settings);
    session.differences = wrong;
    session.isFused = isFused;
    const bits = wrong.length ? `other bits than the process that built it: ${wrong.join(", ")}` : "the same bits as in the process that built it";
    const how = isFused ? "multiply and add in one instruction" : "multiply and add computed, as this machine rounds them apart: slower";
    session.view = new View(root, session, `${settings.calls.length} calls, made here when the page opened: ${bits}; ${how}.`);
    root.dataset.ready = "1";
    return session;
  } catch (error) {
    root.textContent = `It does not run here: ${error.message}`;
    throw error;
  }
}
