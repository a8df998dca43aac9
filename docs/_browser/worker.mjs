// Runs the library's core under Pyodide and answers one request after the other. reader.mjs puts Pyodide's own scripts
// before this one, as `pyodide` and `createPyodideModule`, and hands over every file: nothing is fetched from here. What
// could reach the network, or keep a text, is taken away before the page is told that all is ready. `import()` is a part
// of the language and stays; the page's policy lets it ask for scripts of the site itself, and of no other host.

const OUT = ["fetch", "XMLHttpRequest", "WebSocket", "WebSocketStream", "WebTransport", "EventSource", "Worker",
  "SharedWorker", "BroadcastChannel", "importScripts", "caches", "indexedDB", "webkitRequestFileSystem",
  "webkitRequestFileSystemSync", "webkitResolveLocalFileSystemURL", "webkitResolveLocalFileSystemSyncURL"];
const OUT_OF_NAVIGATOR = ["storage", "storageBuckets", "serviceWorker"];
const HERE = "https://pyodide.invalid/";

/** Take a name away, wherever it is inherited from. */
function remove(name, from = globalThis) {
  for (let at = from; at; at = Object.getPrototypeOf(at)) {
    if (Object.hasOwn(at, name)) Object.defineProperty(at, name, {value: undefined, configurable: false});
  }
}

async function load(held) {
  const named = (what) => held.get(String(what.url ?? what).split("/").pop());
  globalThis.fetch = async (what) => new Response(named(what), {headers: {"Content-Type": "application/wasm"}});
  // Where its WebAssembly is damaged Pyodide waits for ever.
  const instantiate = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = (...given) => instantiate(...given).catch(failed);
  const python = await pyodide.loadPyodide({
    indexURL: HERE,
    packageBaseUrl: HERE,
    createPyodideModule,
    // It names no package, so that none is ever asked for.
    lockFileContents: JSON.parse(new TextDecoder().decode(held.get("pyodide-lock.json"))),
    checkAPIVersion: true,
  });
  postMessage({kind: "progress", stage: "the catalog"});
  python.unpackArchive(held.get("library.zip"), "zip", {extractDir: "/library"});
  python.runPython("import sys; sys.path.insert(0, '/library')");
  const browser = python.pyimport("vllm_runbooks.site.browser");
  postMessage({kind: "progress", stage: "the patterns"});
  browser.warm();
  const choices = JSON.parse(browser.ask(JSON.stringify({do: "choices"})));
  for (const name of OUT) remove(name);
  for (const name of OUT_OF_NAVIGATOR) remove(name, navigator);
  onmessage = ({data}) => {
    const files = python.toPy(data.files.map(({name, bytes}) => [name, new Uint8Array(bytes)]));
    // When a text breaks it, Pyodide writes about that; the page says so in a line and loads anew.
    const complain = console.error;
    console.error = console.info;
    try {
      postMessage({kind: "answer", id: data.id, told: JSON.parse(browser.ask(JSON.stringify(data.request), files))});
    } catch (error) {
      // The stack of WebAssembly is a part of the browser's, and smaller than that of other programs.
      const isDeep = /call stack|recursion/i.test(String(error));
      postMessage({kind: "broken", id: data.id, line: isDeep ? "the text is nested too deeply" : last(error)});
    } finally {
      console.error = complain;
      files.destroy();
    }
  };
  postMessage({kind: "ready", choices, pyodide: pyodide.version});
}

/** The last line of what Python or the browser says of an error. */
function last(error) {
  return String(error?.message ?? error).trim().split("\n").pop().slice(0, 300);
}

function failed(error) {
  postMessage({kind: "failed", line: last(error)});
  throw error;
}

onmessage = ({data}) => load(data).catch(failed);
