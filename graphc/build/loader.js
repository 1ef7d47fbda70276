// A module that graphc built, in memory of its own: its state, and calls of its function.
const PAGE_BYTES = 65536, STACK_BYTES = 262144, TEXT_BYTES = 1000, LEAST_WORK = 16;
const KINDS = {
  F32: Float32Array, F64: Float64Array, I64: BigInt64Array, I32: Int32Array, I16: Int16Array, I8: Int8Array,
  U64: BigUint64Array, U32: Uint32Array, U16: Uint16Array, U8: Uint8Array, BOOL: Uint8Array, F16: Uint16Array,
  BF16: Uint16Array, // the bits of half types
};
const wholeUnits = (bytes, unit) => Math.ceil(bytes / unit) * unit;
const countOf = (shape) => shape.reduce((count, extent) => count * Math.max(extent, 0), 1);

// Whether this machine's relaxed_madd rounds once. Without an example it is false where there is none.
function fused(code) {
  if (!WebAssembly.validate(code)) return false;
  const env = { __linear_memory: new WebAssembly.Memory({ initial: 1 }) };
  return new WebAssembly.Instance(new WebAssembly.Module(code), { env }).exports.fused() === 1;
}

class Built {
  constructor(tables, memory, functions, firstFree) {
    Object.assign(this, { tables, memory, functions });
    this.state = wholeUnits(firstFree, 64);
    this.free = wholeUnits(this.state + tables.stateBytes, 64);
  }

  function(part) { return this.functions[this.tables.name + part]; }

  // Memory grows to hold all below `end`; what looks at it is made anew then.
  grown(end) {
    const missing = end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE_BYTES));
    return new Uint8Array(this.memory.buffer);
  }

  // Fills the state from the bytes of a safetensors file. Raises an Error for one that does not fit.
  init(file) {
    this.grown(this.free + file.length).set(file, this.free);
    this.told(this.function("_init")(this.state, this.free, BigInt(file.length), BigInt(this.tables.layout)), 0);
  }

  // Packs weights as calls read them, after fields of which tables.fields says that they are packed were written.
  // `init` has done it. A call refuses weights that it sees were written since.
  prepare() {
    if (this.function("_prepare")) this.told(this.function("_prepare")(this.state), 0);
  }

  // A field of the state, as it lies in memory until that grows: fetch it anew after a call.
  field(name) {
    const field = this.tables.fields.find((each) => each.name === name);
    return new KINDS[field.type](this.memory.buffer, this.state + field.offset, countOf(field.shape));
  }

  // One call. `sizes`: the open sizes and the numbers by name. Arguments are typed arrays; those it updates are
  // written. Gives the results. Raises an Error with the user's line where it refuses; then the state is as it was.
  call(sizes, ...given) {
    const { tables } = this, order = [...tables.sizes.map((name) => BigInt(sizes[name])), ...tables.numbers.map((name) => Number(sizes[name]))];
    let top = this.free;
    const place = (shape, type) => {
      const bytes = countOf(shape) * KINDS[type].BYTES_PER_ELEMENT, at = top;
      top = wholeUnits(top + bytes, 64);
      return { at, bytes, type, count: countOf(shape) };
    };
    const inputs = tables.arguments.map((argument, number) => {
      const shape = argument.shape ? argument.shape(sizes) : [given[number].length];
      if (given[number].length !== countOf(shape)) throw new TypeError(`${argument.name} has ${given[number].length} elements, not ${countOf(shape)}`);
      if (!(given[number] instanceof KINDS[argument.type])) throw new TypeError(`${argument.name} is not of ${argument.type}`);
      return place(shape, argument.type);
    });
    const outputs = tables.results.map((result) => place(result.shape(sizes), result.type));
    const work = top, needed = Number(this.function("_work_bytes")(...order));
    this.grown(work + Math.max(needed, LEAST_WORK));
    const view = ({ at, count, type }) => new KINDS[type](this.memory.buffer, at, count);
    inputs.forEach((input, number) => view(input).set(given[number]));
    const places = [...inputs, ...outputs].map(({ at }) => at);
    this.told(this.function("")(this.state, ...order, ...places, work), work);
    tables.arguments.forEach((argument, number) => { if (argument.written) given[number].set(view(inputs[number])); });
    return outputs.map((output) => view(output).slice());
  }

  told(status, work) {
    if (status === 0n) return;
    const buffer = work ? wholeUnits(work + LEAST_WORK, 64) : this.free;
    const bytes = this.grown(buffer + TEXT_BYTES);
    const length = Number(this.function("_error")(status, work, buffer, BigInt(TEXT_BYTES)));
    throw new Error(new TextDecoder().decode(bytes.slice(buffer, buffer + Math.min(length, TEXT_BYTES - 1))));
  }

  // The state as the bytes of a safetensors file.
  toBytes() {
    const save = this.function("_save"), length = Number(save(this.state, 0, 0n));
    this.grown(this.free + length);
    save(this.state, this.free, BigInt(length));
    return new Uint8Array(this.memory.buffer, this.free, length).slice();
  }
}

// The module's bytes, ready to be called; its state is to be filled by `init`.
async function load(code, tables) {
  const stack = wholeUnits(tables.dataEnd, 16) + STACK_BYTES;
  const memory = new WebAssembly.Memory({ initial: Math.ceil(stack / PAGE_BYTES) });
  const pointer = new WebAssembly.Global({ value: "i32", mutable: true }, stack);
  const rest = (a, b) => a % b; // exact, as fmod is
  const env = { __linear_memory: memory, __stack_pointer: pointer, fmod: rest, fmodf: rest };
  const { instance } = await WebAssembly.instantiate(code, { env });
  return new Built(tables, memory, instance.exports, stack);
}

// Equal bits; a NaN is as good as another.
function sameBits(one, other) {
  const bits = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const [x, y] = [bits(one), bits(other)], wide = one.BYTES_PER_ELEMENT;
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) {
    if (x[i] !== y[i]) {
      const element = Math.floor(i / wide);
      if (one[element] === one[element] || other[element] === other[element]) return false;
    }
  }
  return true;
}

// Makes calls as the process made them that built this, and gives the names of what has other bits. `data`: for each
// call its arguments, these behind it, and its results; then the fields of the state.
function differences(built, calls, data) {
  const { tables } = built, wrong = [];
  let at = 0;
  const take = (type, count) => {
    const bytes = count * KINDS[type].BYTES_PER_ELEMENT;
    at += bytes;
    return new KINDS[type](data.slice(at - bytes, at).buffer);
  };
  const check = (array, type, what) => { if (!sameBits(array, take(type, array.length))) wrong.push(what); };
  calls.forEach(({ sizes, counts }, number) => {
    const given = tables.arguments.map(({ type }, i) => take(type, counts[i]));
    const results = built.call(sizes, ...given);
    given.forEach((array, i) => check(array, tables.arguments[i].type, `${tables.arguments[i].name} of call ${number}`));
    results.forEach((array, i) => check(array, tables.results[i].type, `result ${i} of call ${number}`));
  });
  for (const { name, type } of tables.fields) check(built.field(name), type, name);
  return wrong;
}
