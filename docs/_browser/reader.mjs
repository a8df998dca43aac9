// The page's side of the worker: fetches what it needs once, starts it, hands over requests, and ends it on request.

const AGAIN = "press Load again, or reload the page";
const SCRIPTS = ["pyodide/pyodide.mjs", "pyodide/pyodide.asm.mjs", "worker.mjs"];
const FILES = [...SCRIPTS, "pyodide/pyodide.asm.wasm", "pyodide/python_stdlib.zip", "pyodide/pyodide-lock.json",
  "library.zip"];

/** Why a request is not answered: the worker that was asked has been ended, or there is none yet. */
export class Ended extends Error {}

export class Reader {
  #worker = null;
  #source = "";
  #held = null;
  #isDoubted = false;
  #fetching = new AbortController();
  #waiting = new Map();
  #number = 0;
  #quiet = 0;

  /**
   * `quietS`: seconds without progress after which loading has failed; `on`: what is told of progress, by name. Once all
   * is there, a slow machine is given four times as long to start Python.
   */
  constructor({quietS, on}) {
    this.quietMs = quietS * 1000;
    this.on = on;
    this.state = "none";
  }

  /** Load anew, whatever is under way; what has been fetched is used again, so that no network is needed. */
  start() {
    this.stop();
    this.state = "loading";
    this.received = 0;
    this.since = performance.now();
    this.on.state(this.state);
    this.#begin(this.#fetching);
  }

  /** End the worker with what it is doing. */
  stop() {
    clearTimeout(this.#quiet);
    this.#fetching.abort();
    this.#fetching = new AbortController();
    this.#worker?.terminate();
    this.#worker = null;
    URL.revokeObjectURL(this.#source);
    this.state = "none";
    for (const {reject} of this.#waiting.values()) reject(new Ended("cancelled"));
    this.#waiting.clear();
  }

  /** The answer to one request; `files` are [{name, bytes}], whose bytes are handed over. Refused unless it is ready. */
  ask(request, files = []) {
    if (this.state !== "ready") return Promise.reject(new Ended("the reader is not ready; wait until this line says so"));
    return new Promise((resolve, reject) => {
      const id = ++this.#number;
      this.#waiting.set(id, {resolve, reject});
      this.#worker.postMessage({id, request, files}, files.map(({bytes}) => bytes));
    });
  }

  async #begin({signal}) {
    this.#watch();
    let held;
    try {
      held = this.#held ?? new Map(await Promise.all(FILES.map((name) => this.#fetched(name, signal))));
    } catch (error) {
      if (!signal.aborted) this.#fail(error.message, `serve the whole folder of the site, and ${AGAIN}`);
      return;
    }
    if (signal.aborted) return;
    this.#held = held;
    this.received = [...held.values()].reduce((sum, {byteLength}) => sum + byteLength, 0);
    // By way of a blob the worker takes over the page's own content security policy; of its own it would have none.
    this.#source = URL.createObjectURL(new Blob([joined(held)], {type: "text/javascript"}));
    try {
      this.#worker = new Worker(this.#source, {type: "module"});
    } catch (error) {
      this.#fail(`this browser starts no module worker (${error.message})`, "use a current browser");
      return;
    }
    this.#worker.onmessage = ({data}) => this.#heard(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`the worker did not start (${event.message || "its script is damaged"})`);
    };
    this.#told("Python");
    this.#worker.postMessage(new Map([...held].map(([name, bytes]) => [name.split("/").pop(), bytes])));
  }

  /** The name and the bytes of one file; whoever waits is told of each piece. */
  async #fetched(path, signal) {
    const name = path.split("/").pop();
    let answer;
    try {
      answer = await fetch(new URL(path, import.meta.url), {signal, cache: this.#isDoubted ? "reload" : "default"});
    } catch {
      throw new Error(`${name} did not arrive`);
    }
    if (!answer.ok) throw new Error(`${name} is not there (status ${answer.status})`);
    const pieces = [];
    try {
      const from = answer.body.getReader();
      for (let {done, value} = await from.read(); !done; {done, value} = await from.read()) {
        pieces.push(value);
        this.received += value.byteLength;
        this.#told("the files");
      }
    } catch {
      throw new Error(`${name} arrived in part only`);
    }
    return [path, await new Blob(pieces).arrayBuffer()];
  }

  #told(stage) {
    this.#watch();
    this.on.progress({stage, received: this.received});
  }

  #watch() {
    clearTimeout(this.#quiet);
    const ms = this.#held ? 4 * this.quietMs : this.quietMs;
    const [what, instead] = this.#held ? ["all of it is here, but Python has not started", "close what else is running"]
      : ["nothing has arrived", "check the connection"];
    this.#quiet = setTimeout(() => this.#fail(`${what} for ${ms / 1000} s`, `${instead}, and ${AGAIN}`), ms);
  }

  #heard(data) {
    if (data.kind === "progress") {
      this.#told(data.stage);
    } else if (data.kind === "ready") {
      clearTimeout(this.#quiet);
      this.#isDoubted = false;
      this.state = "ready";
      this.on.ready({...data, received: this.received, seconds: (performance.now() - this.since) / 1000});
    } else if (data.kind === "failed") {
      this.#fail(data.line, `serve the whole folder of the site, and ${AGAIN}`);
    } else {
      const {resolve, reject} = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.kind === "answer") resolve(data.told);
      else reject(new Error(data.line));
    }
  }

  /** What was fetched may be what is wrong: when somebody asks to load again, it comes from the server and no cache. */
  #fail(what, instead = AGAIN) {
    this.stop();
    this.#held = null;
    this.#isDoubted = true;
    this.state = "failed";
    this.on.failed(`The reader could not be loaded: ${what}; ${instead}.`);
  }
}

/** The worker's script with Pyodide's, which are modules, as functions before it: it asks for no script of its own. */
function joined(held) {
  const [python, engine, worker] = SCRIPTS.map((name) => new TextDecoder().decode(held.get(name)));
  const named = python.replace(/export\s*\{([^}]*)\};/, (_, names) => `return {${names.replace(/(\w+) as (\w+)/g, "$2:$1")}};`);
  const made = engine.replace(/export default (\w+);/, "return $1;");
  return `const pyodide = (() => {${named}\n})();\nconst createPyodideModule = (() => {${made}\n})();\n${worker}`;
}
