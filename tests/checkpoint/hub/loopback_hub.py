"""A small model hub on loopback: the part of the Hub's interface that downloads use, and the ways it can fail.

`Hub` serves models over one port and large (LFS) files over another, as a CDN of another origin. `hub.faults` says how the
next answers go wrong; `hub.requests` lists what was asked for.
"""

import hashlib
import json
import re
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass
class File:
    data: bytes
    large: bool = False
    listed_bytes: int | None = None  # what the listing says instead of the truth
    listed_sum: str | None = None

    @property
    def sum(self) -> str:
        return self.listed_sum or (sha256(self.data) if self.large else git_sha1(self.data))

    @property
    def size(self) -> int:
        return len(self.data) if self.listed_bytes is None else self.listed_bytes


@dataclass
class Model:
    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False

    def commit(self, files: dict[str, File], *refs: str) -> str:
        name = hashlib.sha1(repr(sorted((k, v.sum) for k, v in files.items())).encode() + str(len(self.commits)).encode())
        self.commits[name.hexdigest()] = files
        for ref in refs or ("main",):
            self.refs[ref] = name.hexdigest()
        return name.hexdigest()


@dataclass
class Fault:
    """What happens to the next `times` requests whose path matches; `kind` is read in Handler."""

    path: str
    kind: str
    times: int = 1
    value: int = 0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    cdn: bool

    @property
    def start(self) -> int:
        found = re.match(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(found.group(1)) if found else 0


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):  # clients that leave are part of the tests
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: "Hub"
    cdn = False

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.hub.lock:
            self.hub.requests.append(Request(self.command, self.path, headers, self.cdn))
            fault = next((f for f in self.hub.faults if f.times > 0 and re.search(f.path, self.path)), None)
            if fault is not None:
                fault.times -= 1
        if fault is not None and fault.kind == "status":
            self.small(fault.value, b"refused", fault.headers)
        elif fault is not None and fault.kind == "hang":
            time.sleep(fault.value)
            self.close_connection = True
        elif fault is not None and fault.kind == "redirect":
            self.small(302, b"", fault.headers)
        elif self.cdn:
            self.cdn_file(fault)
        else:
            self.route(headers, fault)

    def small(self, status: int, body: bytes, headers: dict[str, str] | None = None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str, message: str):
        self.small(status, message.encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def route(self, headers: dict[str, str], fault: Fault | None):
        path = urlsplit(self.path).path
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = api or resolve
        model = self.hub.models.get(found.group(1)) if found else None
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if model is None or (model.token is not None and token != model.token):
            status, code = (403, "GatedRepo") if model is not None and model.gated else (401, "RepoNotFound")
            self.error(status, code, "Invalid username or password." if code == "RepoNotFound" else "Access is restricted.")
            return
        revision = unquote(found.group(3) or "main" if api else found.group(2))
        commit = model.refs.get(revision, revision)
        if commit not in model.commits:
            self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif api and api.group(2) == "tree":
            self.tree(model.commits[commit])
        elif api:
            info = {"_id": "0", "id": found.group(1), "sha": commit, "private": False, "downloads": 0, "tags": [], "likes": 0}
            info["siblings"] = [{"rfilename": name} for name in model.commits[commit]]
            self.small(200, json.dumps(info).encode(), {"Content-Type": "application/json"})
        else:
            self.resolve(model.commits[commit], commit, unquote(resolve.group(3)), fault)

    def tree(self, files: dict[str, File]):
        begin = int((re.search(r"cursor=(\d+)", self.path) or [0, 0])[1])
        names = list(files)[begin:begin + self.hub.page]
        entries = []
        for name in names:
            file = files[name]
            entry = {"type": "file", "path": name, "size": file.size, "oid": git_sha1(file.data)}
            if file.large:
                entry["lfs"] = {"oid": file.sum, "size": file.size, "pointerSize": 135}
            else:
                entry["oid"] = file.sum
            entries.append(entry)
        headers = {"Content-Type": "application/json"}
        if begin + self.hub.page < len(files):
            path = urlsplit(self.path).path
            headers["Link"] = f'<{self.hub.url}{path}?cursor={begin + self.hub.page}>; rel="next"'
        self.small(200, json.dumps(entries).encode(), headers)

    def resolve(self, files: dict[str, File], commit: str, name: str, fault: Fault | None):
        file = files.get(name)
        if file is None:
            self.error(404, "EntryNotFound", "Entry not found")
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.sum}"', "Accept-Ranges": "bytes"}
        if file.large:
            headers |= {"X-Linked-Etag": f'"{file.sum}"', "X-Linked-Size": str(file.size)}
            headers["Location"] = f"{self.hub.cdn_url}/blob/{file.sum}?Signature=secret"
            self.small(302, b"", headers)
        else:
            self.body(file.data, headers, fault)

    def cdn_file(self, fault: Fault | None):
        digest = urlsplit(self.path).path.rsplit("/", 1)[-1]
        for model in self.hub.models.values():
            for files in model.commits.values():
                for file in files.values():
                    if file.large and file.sum == digest:
                        self.body(file.data, {"Accept-Ranges": "bytes"}, fault)
                        return
        self.small(404, b"no such blob")

    def body(self, data: bytes, headers: dict[str, str], fault: Fault | None):
        kind = fault.kind if fault else ""
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(wanted.group(1)) if wanted and kind != "ignore_range" else 0
        if start >= len(data) > 0 or kind == "416":
            self.small(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        part = data[start:]
        if kind == "corrupt":
            part = bytes([part[0] ^ 1]) + part[1:]
        if kind == "longer":
            part += b"more"
        self.send_response(206 if start else 200)
        if start:
            first = start + (7 if kind == "wrong_range" else 0)
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        for name, value in headers.items():
            self.send_header(name, value)
        truncated = part[:fault.value] if kind in ("drop", "truncate") else part
        self.send_header("Content-Length", str(len(truncated if kind == "truncate" else part)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.send_slowly(truncated)
        if kind == "drop":
            self.wfile.flush()
            self.close_connection = True

    def send_slowly(self, data: bytes):
        for begin in range(0, len(data), 65536):
            self.wfile.write(data[begin:begin + 65536])
            with self.hub.lock:
                self.hub.sent_bytes += len(data[begin:begin + 65536])
            if self.hub.pause_s:
                time.sleep(self.hub.pause_s)


class Hub:
    def __init__(self, tls: ssl.SSLContext | None = None):
        self.models: dict[str, Model] = {}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.page = 1000
        self.pause_s = 0.0
        self.sent_bytes = 0
        scheme = "https" if tls else "http"
        self.servers = []
        for cdn in (False, True):
            handler = type("HubHandler", (Handler,), {"hub": self, "cdn": cdn})
            server = Server(("127.0.0.1", 0), handler)
            if tls:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            self.servers.append(server)
        self.url = f"{scheme}://localhost:{self.servers[0].server_port}"
        self.cdn_url = f"{scheme}://127.0.0.1:{self.servers[1].server_port}"

    def fail(self, path: str, kind: str, times: int = 1, value: int = 0, **headers: str) -> Fault:
        fault = Fault(path, kind, times, value, {name.replace("_", "-"): text for name, text in headers.items()})
        self.faults.append(fault)
        return fault

    def asked(self, part: str, cdn: bool | None = None) -> list[Request]:
        with self.lock:
            return [r for r in self.requests if part in r.path and (cdn is None or r.cdn == cdn)]

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
