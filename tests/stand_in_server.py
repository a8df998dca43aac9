"""Fakes `vllm serve`: prints recorded lines, answers requests.

Its steps are a JSON list in the variable STAND_IN; the n-th launch of several uses the n-th list:

    {"print": FILE, "until": WORDS, "from": WORDS, "every": S}   lines of a file
    {"sleep": S}   {"work": S}   {"exit": STATUS}   {"die": SIGNAL}
    {"kill": FILE}                                               ends the process with the number in it
    {"child": TITLE, "session": true, "works": false}            a child process
    {"serve": {PATH: [STATUS, BODY]}}                            an HTTP server; other paths answer as vLLM does
    {"hold": true}                                               runs until a signal arrives

As `vllm bench serve` it sends the requests and writes the measurements. In STAND_IN_BENCH,
{"bench": STATUS} fails, {"waits": S} waits first, and {"wants_key": KEY} is the required key.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_CHILD = """\
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    if sys.argv[1] == "works":
        until = time.monotonic() + 0.05
        while time.monotonic() < until: pass
    time.sleep(0.05)
"""
_GOOD: dict[str, Any] = {
    "/health": [200, {}],
    "/v1/models": [200, {"data": [{"id": "tiny"}]}],
    "/v1/completions": [200, {"choices": [{"text": "x"}]}],
    "/v1/chat/completions": [200, {"choices": [{"message": {"content": "x"}}]}],
}


def _handler(answers: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        answered = 0

        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            if self.path == "/metrics":
                text = f'vllm:request_success_total{{finished_reason="length"}} {Handler.answered}.0\n'
                return self._send(200, text.encode())
            return self._answer(self.path)

        def do_POST(self) -> None:
            Handler.answered += 1
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._answer("stream" if asked.get("stream") else "tools" if asked.get("tools") else self.path)

        def _answer(self, path: str) -> None:
            good = {**_GOOD, "stream": [200, None], "tools": _GOOD["/v1/chat/completions"]}
            told = answers.get(path) or good.get(path)
            status, body = told or [404, {"detail": "Not Found"}]
            if path == "stream" and status == 200:
                text = body if body is not None else 'data: {"choices":[{"text":"x"}]}\n\ndata: [DONE]\n\n'
                raw = text.encode()
            else:
                raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            if status == 0:
                time.sleep(float(body))
                return
            self._send(status, raw)

        def _send(self, status: int, raw: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    return Handler


def _given(option: str, default: str = "") -> str:
    words = sys.argv[1:]
    return words[words.index(option) + 1] if option in words else default


def _port() -> int:
    return int(_given("--port", "8000"))


def _bench() -> None:
    told = json.loads(os.environ.get("STAND_IN_BENCH", "{}"))
    if os.environ.get("OPENAI_API_KEY", "") != told.get("wants_key", ""):
        sys.exit(9)
    time.sleep(told.get("waits", 0))
    if told.get("bench"):
        print("Traceback (most recent call last):\nValueError: the tokenizer cannot be read\nnanobind: leaked")
        sys.exit(told["bench"])
    url, count = _given("--base-url"), int(_given("--num-prompts"))
    body = json.dumps({"model": _given("--served-model-name"), "prompt": "x"}).encode()
    answered = 0
    for _ in range(count):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answered += connection.getresponse().status == 200
        connection.close()
    result = {"completed": answered, "duration": 0.5, "output_throughput": 2.0 * count, "median_ttft_ms": 3.5}
    (Path(_given("--result-dir")) / _given("--result-filename")).write_text(json.dumps({**result, **told}))


def _steps() -> list[dict[str, Any]]:
    every: Any = json.loads(os.environ["STAND_IN"])
    if every and isinstance(every[0], dict):
        return list(every)
    counter = Path(os.environ["STAND_IN_COUNT"])
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    return list(every[min(number, len(every) - 1)])


def _print(step: dict[str, Any]) -> None:
    is_on = "from" not in step
    for line in Path(step["print"]).read_text("utf-8").splitlines():
        is_on = is_on or step.get("from", "") in line
        if is_on:
            print(line, flush=True)
            time.sleep(step.get("every", 0))
        if is_on and step.get("until") and step["until"] in line:
            return


def _do(step: dict[str, Any]) -> None:
    if "print" in step:
        _print(step)
    elif "sleep" in step:
        time.sleep(step["sleep"])
    elif "work" in step:
        until = time.monotonic() + step["work"]
        while time.monotonic() < until:
            pass
    elif "exit" in step:
        sys.stdout.flush()
        os._exit(step["exit"])
    elif "die" in step:
        os.kill(os.getpid(), step["die"])
    elif "child" in step:
        works = "works" if step.get("works") else "waits"
        command = ["bash", "-c", f'exec -a "{step["child"]}" "$0" -c "$1" {works}', sys.executable, _CHILD]
        child = subprocess.Popen(command, start_new_session=bool(step.get("session")))
        if "pid_file" in step:
            Path(step["pid_file"]).write_text(str(child.pid))
    elif "kill" in step:
        os.kill(int(Path(step["kill"]).read_text()), signal.SIGKILL)
        os.wait()
    elif "serve" in step:
        server = ThreadingHTTPServer((_given("--host", "127.0.0.1"), _port()), _handler(step["serve"]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
    elif "hold" in step:
        signal.pause()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if sys.argv[1:3] == ["bench", "serve"]:
        _bench()
        sys.exit()
    for each in _steps():
        _do(each)
