"""A server that stands before another one and spoils its answers: faulty_proxy.py URL FAULT prints its port.

Each fault is one that clients have met in the wild (text-layer.md 5 and 6).
"""

import http.server
import json
import sys
import urllib.error
import urllib.request


def events(body: bytes) -> list[str]:
    return [part[len("data: "):] for part in body.decode().split("\n\n") if part.startswith("data: ")]


def joined(parts: list[str]) -> bytes:
    return "".join(f"data: {part}\n\n" for part in parts).encode()


def on_chunks(change):
    """A fault of streams: `change` gets the chunks ([DONE] left out) and gives the new ones."""

    def fault(path, status, headers, body):
        if b"data: " not in body:
            return status, headers, body
        parts = events(body)
        chunks = [json.loads(part) for part in parts if part != "[DONE]"]
        return status, headers, joined([json.dumps(chunk) for chunk in change(chunks)] + (["[DONE]"] if "[DONE]" in parts else []))

    return fault


def on_json(change):
    """A fault of whole answers: `change` gets path and answer and changes it in place."""

    def fault(path, status, headers, body):
        try:
            answer = json.loads(body)
        except ValueError:
            return status, headers, body
        change(path, answer)
        return status, headers, json.dumps(answer).encode()

    return fault


def choices(chunk):
    return chunk.get("choices") or []


def role_late(chunks):
    return [chunk for chunk in chunks if not any("role" in choice.get("delta", {}) for choice in choices(chunk))]


def two_finishes(chunks):
    finishes = [chunk for chunk in chunks if any(choice.get("finish_reason") for choice in choices(chunk))]
    return chunks + finishes


def other_ids(chunks):
    return [chunk | {"id": f"chatcmpl-{i}"} for i, chunk in enumerate(chunks)]


def lost_chunk(chunks):
    return chunks[:2] + chunks[3:]


def usage_everywhere(chunks):
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [chunk | {"usage": chunk.get("usage") or usage} for chunk in chunks]


def cut_names(chunks):
    for chunk in chunks:
        for choice in choices(chunk):
            for call in choice.get("delta", {}).get("tool_calls") or []:
                if call.get("function", {}).get("name"):
                    call["function"]["name"] = call["function"]["name"][:5]
    return chunks


def wrong_sum(path, answer):
    if isinstance(answer.get("usage"), dict):
        answer["usage"]["total_tokens"] += 1


def think_tags(path, answer):
    for choice in answer.get("choices", []):
        if "message" in choice:
            message = choice["message"]
            message["content"] = "<think>" + (message.get("reasoning") or "") + "</think>" + (message.get("content") or "")


def few_logprobs(path, answer):
    for choice in answer.get("choices", []):
        if choice.get("logprobs") and choice["logprobs"].get("content"):
            choice["logprobs"]["content"].pop()


def arguments_as_object(path, answer):
    for choice in answer.get("choices", []):
        for call in choice.get("message", {}).get("tool_calls") or []:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])


def bare_errors(path, answer):
    if isinstance(answer.get("error"), dict):
        answer["detail"] = answer.pop("error")["message"]


def no_root(path, answer):
    for card in answer.get("data", []):
        card.pop("root", None)


def no_done(path, status, headers, body):
    return status, headers, body.replace(b"data: [DONE]\n\n", b"")


def errors_are_500(path, status, headers, body):
    return (500 if status == 400 else status), headers, body


def no_cors(path, status, headers, body):
    return status, {name: value for name, value in headers.items() if "access-control" not in name.lower()}, body


def unstopped(path, answer):
    for choice in answer.get("choices", []):
        if choice.get("finish_reason") == "length":
            choice["finish_reason"] = "stop"


FAULTS = {
    "none": lambda *answer: answer[1:],
    "role-late": on_chunks(role_late),
    "two-finishes": on_chunks(two_finishes),
    "other-ids": on_chunks(other_ids),
    "lost-chunk": on_chunks(lost_chunk),
    "usage-everywhere": on_chunks(usage_everywhere),
    "cut-names": on_chunks(cut_names),
    "wrong-sum": on_json(wrong_sum),
    "think-tags": on_json(think_tags),
    "few-logprobs": on_json(few_logprobs),
    "arguments-as-object": on_json(arguments_as_object),
    "bare-errors": on_json(bare_errors),
    "no-root": on_json(no_root),
    "unstopped": on_json(unstopped),
    "no-done": no_done,
    "errors-are-500": errors_are_500,
    "no-cors": no_cors,
}


def make_handler(url: str, fault):
    class Handler(http.server.BaseHTTPRequestHandler):
        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length", "connection")}
            request = urllib.request.Request(url + self.path, data=body or None, headers=headers, method=self.command)
            try:
                with urllib.request.urlopen(request) as answer:
                    got = answer.status, dict(answer.headers.items()), answer.read()
            except urllib.error.HTTPError as error:
                got = error.code, dict(error.headers.items()), error.read()
            status, headers, body = fault(self.path, *got)
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_OPTIONS = do_HEAD = forward

        def log_message(self, *arguments):
            pass

    return Handler


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make_handler(sys.argv[1], FAULTS[sys.argv[2]]))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
