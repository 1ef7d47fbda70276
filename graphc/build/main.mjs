// Runs @NAME@ @COUNT@ times and compares every bit of results and state with what the process had that built it:
// node main.mjs
import { readFileSync } from "node:fs";
import { built, differences } from "./@NAME@.mjs";

const bytes = (name) => new Uint8Array(readFileSync(new URL(name, import.meta.url)));
const step = await built(bytes("@NAME@.wasm"));
step.init(bytes("@NAME@.safetensors"));
const wrong = differences(step, @CALLS@, bytes("main.data"));
wrong.forEach((what) => console.error(`${what} differs`));
console.log(wrong.length ? "other bits" : "the same bits");
process.exit(wrong.length ? 1 : 0);
