// perfetto_engine — runs the WebAssembly trace processor of Perfetto's page with stdin and stdout.
//
//     node perfetto_engine.js FOLDER     FOLDER: the page's files, including engine_bundle.js
//
// Both directions use frames: a length (uint32, little-endian) and a TraceProcessorRpcStream.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');
const folder = process.argv[2];

function read(bytes) {
  const data = Buffer.alloc(bytes);
  for (let at = 0; at < bytes;) {
    const count = fs.readSync(0, data, at, bytes - at, null);
    if (count === 0) return null;
    at += count;
  }
  return data;
}

function write(data) {
  for (let at = 0; at < data.length;) at += fs.writeSync(1, data, at);
}

// Adds the globals of a browser worker and hides those of node, because the bundle refuses to run in node.
globalThis.self = globalThis;
globalThis.location = {href: `file://${folder}/`};
globalThis.WorkerGlobalScope = globalThis.constructor;
globalThis.XMLHttpRequest = class {
  open(method, url) { this.file = path.join(folder, path.basename(url)); }
  send() {
    const data = fs.readFileSync(this.file);
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    this.status = 200;
  }
};
Object.defineProperty(globalThis, 'process', {value: undefined, configurable: true});
vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), {filename: 'engine_bundle.js'});

const port = {
  postMessage(reply) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(reply.length);
    write(length);
    write(reply);
  }
};
globalThis.onmessage({data: port});
setTimeout(() => { // after the bundle has started
  for (let length = read(4); length; length = read(4)) port.onmessage({data: new Uint8Array(read(length.readUInt32LE()))});
}, 0);
