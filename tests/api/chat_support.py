"""A scripted server of the OpenAI API for the tests of `glint chat`, and a terminal to run it in."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer:
    """Answers by the last message: see `script`. `requests` holds the bodies, `gone` is set when a client leaves a slow answer."""

    def __init__(self):
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.gone = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self._whole(200, {"object": "list", "data": [{"id": "fake"}, {"id": "other"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                fake.requests.append(body)
                fake.headers.append(dict(self.headers))
                last = body["messages"][-1]["content"]
                if last == "refuse":
                    return self._whole(400, {"error": {"message": "not\x1b[31m today", "code": 400}})
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                try:
                    for data in fake.script(last, body):
                        self._chunk(f"data: {data}\n\n".encode(), byte_by_byte=last == "bytes")
                    if last != "break":
                        self._chunk(b"data: [DONE]\n\n")
                        self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    fake.gone.set()
                self.close_connection = True

            def _chunk(self, text: bytes, byte_by_byte: bool = False):
                for part in ([text[i: i + 1] for i in range(len(text))] if byte_by_byte else [text]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()

            def _whole(self, status: int, body: dict):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def script(self, last: str, body: dict):
        def delta(finish=None, **fields):
            return json.dumps({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}, ensure_ascii=last == "ascii")
        yield delta(role="assistant", content="")
        if last == "escape":
            yield delta(reasoning="\x1b[31mred \x07")
            yield delta(content="\x1b]0;owned\x07\x1b[2Ja\rb \x9b31m \u202e \x08 \x7f end")
        elif last == "slow":
            yield delta(content="begin ")
            for n in range(600):
                time.sleep(0.05)
                yield delta(content=f"{n} ")
        elif last == "tool":
            call = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "get_weather", "arguments": '{"ci'}}
            yield delta(tool_calls=[call])
            yield delta(tool_calls=[{"index": 0, "function": {"arguments": 'ty": "Oslo"}'}}])
        elif last == "break":
            yield delta(content="half")
            return
        elif last == "error":
            yield json.dumps({"error": {"message": "the engine has stopped", "code": 500}})
            return
        else:
            yield delta(reasoning_content="I think ")
            yield delta(reasoning_content="so.")
            yield delta(content="You said: ")
            yield delta(content=str(last))
        yield delta(finish="tool_calls" if last == "tool" else "length" if last == "long" else "stop")
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}}
        yield json.dumps({"choices": [], "usage": usage})


class Terminal:
    """A program on a terminal of 80 columns."""

    def __init__(self, *command: str):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        self.seen = 0

        def control():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, preexec_fn=control)

    def send(self, text: str):
        os.write(self.master, text.encode())

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.output += os.read(self.master, 65536).decode("utf-8", "replace")
        return True

    def expect(self, pattern: str, seconds: float = 20) -> re.Match:
        """Waits for `pattern` behind what was expected before."""
        end = time.monotonic() + seconds
        while True:
            found = re.compile(pattern).search(self.output, self.seen)
            if found:
                self.seen = found.end()
                return found
            assert time.monotonic() < end, f"no {pattern!r} in {self.output[self.seen:]!r}"
            self._read(0.1)

    def wait(self, seconds: float = 20) -> int:
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, "the program does not end: " + self.output[self.seen:]
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
