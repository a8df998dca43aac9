// Runs the library's core under Pyodide and answers one request after the other. What could reach the network is taken
// away before the page is told that all is ready: no log that arrives later can be sent anywhere.

const HERE = new URL("./", import.meta.url);
const OUT = ["fetch", "XMLHttpRequest", "WebSocket", "WebSocketStream", "WebTransport", "EventSource", "Worker",
  "SharedWorker", "BroadcastChannel", "importScripts", "caches", "indexedDB"];

let received = 0;

/** Tell the page why nothing comes of it: where a file is missing, Pyodide itself may say nothing, and wait for ever. */
function told(line) {
  postMessage({kind: "failed", line});
  return new Error(line);
}

/** What is asked for by Pyodide as well: counts what arrives, and refuses an answer that is none. */
function counted(ask) {
  return async (what, how) => {
    const name = String(what.url ?? what).split("/").pop();
    let answer;
    try {
      answer = await ask(what, how);
    } catch {
      throw told(`${name} did not arrive`);
    }
    if (!answer.ok) throw told(`${name} is not there (status ${answer.status})`);
    const body = answer.body.pipeThrough(new TransformStream({
      transform(piece, on) {
        received += piece.byteLength;
        postMessage({kind: "progress", stage: name, received});
        on.enqueue(piece);
      },
    }));
    return new Response(body, {status: answer.status, headers: answer.headers});
  };
}

/** Take a name away from this worker, wherever it is inherited from. */
function remove(name) {
  for (let at = globalThis; at; at = Object.getPrototypeOf(at)) {
    if (Object.hasOwn(at, name)) Object.defineProperty(at, name, {value: undefined, configurable: false});
  }
}

async function load() {
  globalThis.fetch = counted(globalThis.fetch.bind(globalThis));
  const library = fetch(new URL("library.zip", HERE)).then((answer) => answer.arrayBuffer());
  library.catch(() => {});
  const {loadPyodide, version} = await import(new URL("pyodide/pyodide.mjs", HERE));
  const python = await loadPyodide({
    indexURL: new URL("pyodide/", HERE).href,
    packageBaseUrl: new URL("pyodide/", HERE).href,
    // No package of Pyodide's own is used, so that none is ever asked for.
    lockFileContents: {info: {abi_version: "2026_0", arch: "wasm32", platform: "emscripten_5_0_3", python: "3.14.2"},
      packages: {}},
    checkAPIVersion: true,
  });
  postMessage({kind: "progress", stage: "the catalog", received});
  python.unpackArchive(await library, "zip", {extractDir: "/library"});
  python.runPython("import sys; sys.path.insert(0, '/library')");
  const browser = python.pyimport("vllm_runbooks.browser");
  postMessage({kind: "progress", stage: "the patterns", received});
  browser.warm();
  const choices = JSON.parse(browser.ask(JSON.stringify({do: "choices"})));
  OUT.forEach(remove);
  // When a text breaks it, the page says so in a line and loads anew: that is no error of the page.
  console.error = console.info;
  onmessage = ({data}) => {
    const files = python.toPy(data.files.map(({name, bytes}) => [name, new Uint8Array(bytes)]));
    try {
      postMessage({kind: "answer", id: data.id, told: JSON.parse(browser.ask(JSON.stringify(data.request), files))});
    } catch (error) {
      // The stack of WebAssembly is a part of the browser's, and smaller than that of other programs.
      const isDeep = /call stack|recursion/i.test(String(error));
      postMessage({kind: "broken", id: data.id, line: isDeep ? "the text is nested too deeply" : last(error)});
    } finally {
      files.destroy();
    }
  };
  postMessage({kind: "ready", received, choices, pyodide: version});
}

/** The last line of what Python or the browser says of an error. */
function last(error) {
  return String(error?.message ?? error).trim().split("\n").pop().slice(0, 300);
}

load().catch((error) => told(last(error)));
