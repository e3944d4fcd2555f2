"""Spans over OTLP/HTTP, read by OpenTelemetry's own protobuf classes in a small collector."""

import base64
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest
from conftest import Server, _program, wait_until
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector:
    """Keeps what it gets; `statuses` are its next answers, 200 behind them. `delay` seconds before each."""

    def __init__(self):
        self.requests, self.statuses, self.delay = [], [], 0.0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(collector.delay)
                status = collector.statuses.pop(0) if collector.statuses else 200
                if status == 200:
                    collector.requests.append((self.path, dict(self.headers), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        found = []
        for _, headers, body in self.requests:
            message = ExportTraceServiceRequest()
            if headers["Content-Type"] == "application/json":
                # Protobuf's JSON has bytes in base64, OTLP's has ids in hexadecimal.
                document = json.loads(body)
                for resource in document["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        for span in scope["spans"]:
                            for key in ("traceId", "spanId", "parentSpanId"):
                                if key in span:
                                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
                json_format.ParseDict(document, message)
            else:
                assert headers["Content-Type"] == "application/x-protobuf"
                message.ParseFromString(body)
            for resource in message.resource_spans:
                assert {a.key: a.value.string_value for a in resource.resource.attributes} == {"service.name": "test"}
                for scope in resource.scope_spans:
                    assert scope.scope.name == "glint" and scope.scope.version
                    found += scope.spans
        return found


@contextmanager
def traced_server(url: str, **environment: str):
    defaults = {"OTEL_SERVICE_NAME": "test", "OTEL_BSP_SCHEDULE_DELAY": "50", "GLINT_TEST_COLLECTOR": url}
    process = subprocess.Popen(
        [_program("GLINT_SCRIPTED_SERVER")], stdout=subprocess.PIPE, text=True, env={**os.environ, **defaults, **environment}
    )
    port = int(process.stdout.readline())
    try:
        yield Server(f"http://127.0.0.1:{port}", True, process)
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def ask(server, text="hello", headers=None, **fields):
    body = {"model": "glm-5.3", "messages": [{"role": "user", "content": text}], **fields}
    request = urllib.request.Request(
        server.url + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", **(headers or {})},
    )
    with urllib.request.urlopen(request) as response:
        return response.read()


def counts(server) -> dict[str, float]:
    text = urllib.request.urlopen(server.url + "/metrics").read().decode()
    lines = [line for line in text.splitlines() if line.startswith("glint:trace_spans_total{")]
    return {line.split('result="')[1].split('"')[0]: float(line.split()[-1]) for line in lines}


def attributes(span) -> dict:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_a_span_for_each_request(protocol):
    collector = Collector()
    environment = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=7"}
    with traced_server(collector.url, **environment) as server:
        before = time.time_ns()
        state = "vendor=a:b,other=1"
        traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": state, "X-Request-Id": "r1"}
        answer = json.loads(ask(server, headers=traced, n=2, temperature=0.5, top_p=0.25, max_tokens=300))
        ask(server, headers={"traceparent": "nonsense", "X-Request-Id": "r2"}, stream=True)
        ask(server, headers={"traceparent": f"00-{TRACE}-{PARENT}-00", "X-Request-Id": "r3"})  # not sampled
        assert wait_until(lambda: len(collector.spans()) == 2)
        after = time.time_ns()
        spans = {attributes(span)["gen_ai.request.id"]: span for span in collector.spans()}
        assert counts(server) == {"exported": 2, "dropped_queue_full": 0, "dropped_failed": 0}
    path, headers, _ = collector.requests[0]
    assert path == "/v1/traces" and headers["x-tenant"] == "7"
    span = spans["r1"]
    assert (span.name, span.kind, span.status.code) == ("llm_request", 2, 0)
    assert span.trace_id.hex() == TRACE and span.parent_span_id.hex() == PARENT
    assert span.trace_state == state and span.flags == 1
    assert len(span.span_id) == 8 and span.span_id != bytes(8)
    assert before <= span.start_time_unix_nano <= span.end_time_unix_nano <= after
    values = attributes(span)
    assert values["gen_ai.usage.prompt_tokens"] == answer["usage"]["prompt_tokens"]
    assert values["gen_ai.usage.completion_tokens"] == answer["usage"]["completion_tokens"]
    assert (values["gen_ai.request.n"], values["gen_ai.usage.num_sequences"]) == (2, 2)
    assert (values["gen_ai.request.temperature"], values["gen_ai.request.top_p"]) == (0.5, 0.25)
    assert values["gen_ai.request.max_tokens"] == 300 and values["gen_ai.response.model"] == "glm-5.3"
    duration = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    assert 0 <= values["gen_ai.latency.time_to_first_token"] <= values["gen_ai.latency.e2e"]
    assert values["gen_ai.latency.e2e"] == pytest.approx(duration, abs=0.05)
    assert values["gen_ai.latency.time_in_queue"] >= 0 and values["gen_ai.latency.time_in_scheduler"] >= 0
    own = spans["r2"]
    assert own.trace_id.hex() != TRACE and len(own.trace_id) == 16 and not own.parent_span_id
    assert own.span_id != span.span_id


def test_a_client_that_leaves_is_an_error():
    collector = Collector()
    with traced_server(collector.url) as server:
        port = int(server.url.rsplit(":", 1)[1])
        body = json.dumps({"messages": [{"role": "user", "content": "x" * 3000}], "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            client.recv(200)
        assert wait_until(lambda: len(collector.spans()) == 1)
    span = collector.spans()[0]
    assert span.status.code == 2 and span.status.message == "the client has left"


def test_what_waits_is_sent_at_the_end():
    collector = Collector()
    with traced_server(collector.url, OTEL_BSP_SCHEDULE_DELAY="600000") as server:
        ask(server)
    assert len(collector.spans()) == 1


def test_a_collector_that_is_busy_for_a_moment():
    collector = Collector()
    collector.statuses = [503, 429]
    with traced_server(collector.url) as server:
        ask(server)
        assert wait_until(lambda: counts(server)["exported"] == 1)
    assert len(collector.spans()) == 1


def test_a_collector_that_refuses():
    collector = Collector()
    collector.statuses = [400]
    with traced_server(collector.url) as server:
        ask(server)
        assert wait_until(lambda: counts(server)["dropped_failed"] == 1)
    assert not collector.spans()


def test_a_slow_collector_costs_spans_not_time():
    collector = Collector()
    collector.delay = 1.0
    environment = {"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}
    with traced_server(collector.url, **environment) as server:
        begin = time.monotonic()
        for _ in range(30):
            ask(server, "hi")
        spent = time.monotonic() - begin
        assert wait_until(lambda: sum(counts(server).values()) >= 26)
        dropped = counts(server)["dropped_queue_full"]
        assert dropped >= 30 - 4 - 2 * (spent + 2), (dropped, spent)
        assert spent < 10, "30 requests in the time of their tokens"


def test_no_collector():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with traced_server(url) as server:
        for _ in range(3):
            ask(server)
