// Runs Perfetto's own engine (the trace processor as WebAssembly) in node.
// Standard input: bytes of TraceProcessorRpcStream; standard output: the replies. Argument: folder of engine_bundle.js.
const fs = require("fs"), path = require("path"), vm = require("vm");
const folder = process.argv[2], requests = fs.readFileSync(0);

function failed(error) {
  console.error(String((error && error.stack) || error).slice(0, 2000));
  process.exit(1);
}
process.on("uncaughtException", failed);
process.on("unhandledRejection", failed);

// node has no 64-bit memories, which the engine asks for by compiling a tiny module: let that fail.
const assembly = Object.create(null);
for (const name of Object.getOwnPropertyNames(WebAssembly)) assembly[name] = WebAssembly[name];
assembly.Module = new Proxy(WebAssembly.Module, {
  construct(target, args) {
    if (args[0] && args[0].length < 30) throw new Error("no 64-bit memory");
    return Reflect.construct(target, args);
  },
});

const read = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
const log = (...texts) => console.error(...texts);
const world = {
  console: { log, warn: log, error: log },
  WebAssembly: assembly,
  TextDecoder, TextEncoder, URL, performance, setTimeout, clearTimeout, Uint8Array, ArrayBuffer, Response, Headers,
  TypeError, RangeError,
  crypto: globalThis.crypto,
  location: { href: "http://localhost/engine_bundle.js" },
  importScripts() {},
  WorkerGlobalScope: function () {},
  fetch: async (url) => new Response(read(url), { status: 200, headers: { "Content-Type": "application/wasm" } }),
  XMLHttpRequest: class {
    open(_, url) { this.url = url; }
    send() {
      const bytes = read(this.url);
      this.status = 200;
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      if (this.onload) this.onload();
    }
  },
};
world.self = world;
world.globalThis = world;
vm.createContext(world);
vm.runInContext(read("engine_bundle.js").toString("utf8"), world);

const port = { postMessage: (bytes) => fs.writeSync(1, Buffer.from(bytes)) };
world.onmessage({ data: port });
setTimeout(function ask() {
  try {
    port.onmessage({ data: new Uint8Array(requests) });
  } catch (error) {
    if (/HEAPU8|undefined/.test(String(error))) return setTimeout(ask, 300); // not compiled yet
    failed(error);
  }
  setTimeout(() => process.exit(0), 200);
}, 800);
