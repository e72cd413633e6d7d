// Perfetto's trace_processor, as its own page runs it (engine_bundle.js and the wasm beside it), for programs: requests on standard input and answers on
// standard output are the bytes that the page exchanges with it (TraceProcessorRpcStream).
//
//     node trace_processor.mjs DIRECTORY        that has engine_bundle.js
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const place = process.argv[2];
const port = {
  postMessage: (bytes) => {
    for (let done = 0; done < bytes.length; ) done += fs.writeSync(1, bytes, done);
  },
};
// The engine fetches its wasm by its name alone, and waits for it.
class XMLHttpRequest {
  open(_, name) {
    this.name = path.basename(String(name));
  }
  send() {
    this.response = new Bytes(fs.readFileSync(path.join(place, this.name))).buffer;
  }
}
// A worker of a browser, as far as the engine asks for it. What it prints goes to standard error.
const worker = vm.createContext({
  XMLHttpRequest, TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, performance, crypto, queueMicrotask,
  WorkerGlobalScope: Object, console: new console.Console(process.stderr, process.stderr), location: { href: "file:///engine_bundle.js" }, importScripts: () => {},
});
worker.self = worker;
// Bytes have to be of the engine's own kind.
const Bytes = vm.runInContext("Uint8Array", worker);
try {
  vm.runInContext(fs.readFileSync(path.join(place, "engine_bundle.js"), "utf8"), worker);
} catch (error) {
  // Not its stack, which has the whole engine in one line.
  console.error(`trace_processor: ${error}`);
  process.exit(1);
}
worker.onmessage({ data: port });
for await (const chunk of process.stdin) port.onmessage({ data: new Bytes(chunk) });
