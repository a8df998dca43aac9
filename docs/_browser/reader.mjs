// The page's side of the worker: starts it, watches that it loads, hands over requests, and ends it on request.

const WORKER = new URL("worker.mjs", import.meta.url);
const AGAIN = "press Load again, or reload the page";

export class Reader {
  #worker = null;
  #waiting = new Map();
  #number = 0;
  #quiet = 0;

  /**
   * `quietS`: seconds without progress after which loading has failed; `bytes`: how many have to arrive; `on`: what is
   * told of progress, by name. Once all is there, a slow machine is given four times as long to start Python.
   */
  constructor({quietS, bytes = Infinity, on}) {
    this.quietMs = quietS * 1000;
    this.bytes = bytes;
    this.on = on;
    this.state = "none";
  }

  /** Load anew, whatever is under way. */
  start() {
    this.stop();
    this.state = "loading";
    this.since = performance.now();
    this.#watch(0);
    // By way of a blob the worker takes over the page's own content security policy; of its own it would have none.
    const begin = `import(${JSON.stringify(WORKER.href)}).catch(() => postMessage(`
      + `{kind: "failed", line: "worker.mjs did not arrive"}));`;
    const source = URL.createObjectURL(new Blob([begin], {type: "text/javascript"}));
    try {
      this.#worker = new Worker(source, {type: "module"});
    } catch (error) {
      this.#fail(`this browser starts no module worker (${error.message})`, "use a current browser");
      return;
    }
    this.#worker.onmessage = ({data}) => this.#heard(data, source);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`the worker did not start (${event.message || "its file did not arrive"})`);
    };
    this.on.state(this.state);
  }

  /** End the worker with what it is doing. */
  stop() {
    clearTimeout(this.#quiet);
    this.#worker?.terminate();
    this.#worker = null;
    this.state = "none";
    for (const {reject} of this.#waiting.values()) reject(new Error("cancelled"));
    this.#waiting.clear();
  }

  /** The answer to one request; `files` are [{name, bytes}], whose bytes are handed over. */
  ask(request, files = []) {
    return new Promise((resolve, reject) => {
      const id = ++this.#number;
      this.#waiting.set(id, {resolve, reject});
      this.#worker.postMessage({id, request, files}, files.map(({bytes}) => bytes));
    });
  }

  #watch(received) {
    clearTimeout(this.#quiet);
    const isHere = received >= this.bytes;
    const ms = isHere ? 4 * this.quietMs : this.quietMs;
    const [what, instead] = isHere ? ["all of it is here, but Python has not started", "close what else is running"]
      : ["nothing has arrived", "check the connection"];
    this.#quiet = setTimeout(() => this.#fail(`${what} for ${ms / 1000} s`, `${instead}, and ${AGAIN}`), ms);
  }

  #heard(data, source) {
    if (data.kind === "progress") {
      this.#watch(data.received);
      this.on.progress(data);
    } else if (data.kind === "ready") {
      clearTimeout(this.#quiet);
      URL.revokeObjectURL(source);
      this.state = "ready";
      this.on.ready({...data, seconds: (performance.now() - this.since) / 1000});
    } else if (data.kind === "failed") {
      this.#fail(data.line, `serve the whole folder of the site, and ${AGAIN}`);
    } else {
      const {resolve, reject} = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.kind === "answer") resolve(data.told);
      else reject(new Error(data.line));
    }
  }

  #fail(what, instead = AGAIN) {
    this.stop();
    this.state = "failed";
    this.on.failed(`The reader could not be loaded: ${what}; ${instead}.`);
  }
}
