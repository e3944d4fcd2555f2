"""TLS, Unix sockets, CORS, ids and keys of a real `glint serve`, with the clients that people have: openai, httpx, Python's ssl."""

import socket
import ssl
import subprocess

import httpx2 as httpx
import pytest
from conftest import _program, _stop, start_real

HELLO = {"model": "glm-5.3", "prompt": "one", "max_tokens": 4, "extra_body": {"ignore_eos": True}}


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, the server's certificate and a client's."""
    folder = tmp_path_factory.mktemp("tls")
    at = {name: str(folder / name) for name in ("ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key")}
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
    openssl("req", "-x509", "-nodes", *curve, "-subj", "/CN=ca", "-keyout", at["ca.key"], "-out", at["ca.pem"])
    for name in ("server", "client"):
        signed = ["-CA", at["ca.pem"], "-CAkey", at["ca.key"], "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        password = ["-passout", "pass:sesame"] if name == "server" else ["-nodes"]
        files = ["-keyout", at[f"{name}.key"], "-out", at[f"{name}.pem"]]
        openssl("req", "-x509", *curve, *signed, *password, "-subj", f"/CN={name}", *files)
    return at


def test_tls_with_certificates_of_clients(standin, certificates):
    flags = ["--ssl-certfile", certificates["server.pem"], "--ssl-keyfile", certificates["server.key"]]
    flags += ["--ssl-keyfile-password", "sesame", "--ssl-ca-certs", certificates["ca.pem"], "--ssl-cert-reqs", "2"]
    server = start_real(standin, "--served-model-name", "glm-5.3", *flags)
    try:
        assert server.url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=certificates["ca.pem"])
        trust.load_cert_chain(certificates["client.pem"], certificates["client.key"])
        client = server.client(http_client=httpx.Client(verify=trust))
        assert client.completions.create(**HELLO).choices[0].finish_reason == "length"
        chunks = list(client.completions.create(**HELLO, stream=True))
        assert chunks[-1].choices[0].finish_reason == "length"
        nobody = ssl.create_default_context(cafile=certificates["ca.pem"])
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.url + "/health", verify=nobody)
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.url.replace("https", "http") + "/health")
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as plain:
            with trust.wrap_socket(plain, server_hostname="localhost") as secure:
                assert secure.version() == "TLSv1.3"
    finally:
        assert _stop(server) == 0


def test_unix_socket(standin, tmp_path):
    path = str(tmp_path / "glint.sock")
    server = start_real(standin, "--served-model-name", "glm-5.3", "--uds", path)
    try:
        assert server.url == "unix:" + path
        server.url = "http://localhost"
        transport = httpx.HTTPTransport(uds=path)
        client = server.client(http_client=httpx.Client(transport=transport))
        assert client.completions.create(**HELLO).choices[0].finish_reason == "length"
        assert [model.id for model in client.models.list()] == ["glm-5.3"]
    finally:
        assert _stop(server) == 0
    assert not (tmp_path / "glint.sock").exists()


def test_front_flags(standin):
    flags = ["--allowed-origins", '["https://a.example"]', "--allow-credentials", "--enable-request-id-headers"]
    flags += ["--root-path", "/llm", "--api-key", "first", "second", "--disable-fastapi-docs"]
    flags += ["--h11-max-header-count", "20", "--h11-max-incomplete-event-size", "8192"]
    server = start_real(standin, "--served-model-name", "glm-5.3", *flags)
    try:
        with httpx.Client(base_url=server.url) as client:
            keys = [{}, {"Authorization": "Bearer first"}, {"x-api-key": "second"}, {"x-api-key": "third"}]
            assert [client.get("/llm/v1/models", headers=key).status_code for key in keys] == [401, 200, 200, 401]
            answer = client.get("/health", headers={"Origin": "https://a.example", "X-Request-Id": "r-1"})
            assert answer.headers["access-control-allow-origin"] == "https://a.example"
            assert answer.headers["access-control-allow-credentials"] == "true"
            assert answer.headers["x-request-id"] == "r-1"
            other = client.get("/health", headers={"Origin": "https://b.example"})
            assert "access-control-allow-origin" not in other.headers
            assert client.get("/openapi.json").status_code == 404
            assert client.get("/health", headers={f"x-{i}": "1" for i in range(30)}).status_code == 431
            assert client.get("/health", headers={"x": "y" * 9000}).status_code == 431
    finally:
        assert _stop(server) == 0


WRONG = {
    ("--ssl-keyfile", "key.pem"): "--ssl-certfile",
    ("--ssl-certfile", "missing.pem"): "missing.pem",
    ("--ssl-cert-reqs", "2"): "--ssl-certfile",
    ("--ssl-cert-reqs", "7"): "--ssl-cert-reqs",
    ("--allowed-origins", "*"): "--allowed-origins",
    ("--root-path", "llm"): "--root-path",
    ("--otlp-traces-endpoint", "grpc://collector:4317"): "--otlp-traces-endpoint",
    ("--uds", "x" * 200): "--uds",
}


@pytest.mark.parametrize("flags", WRONG, ids=lambda flags: flags[0] + " " + flags[1][:20])
def test_wrong_values_are_one_line(standin, flags):
    command = [_program("GLINT_BIN"), "serve", standin, "--port", "0", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    lines = ended.stderr.strip().splitlines()
    assert WRONG[flags] in lines[-1] and "error" in lines[-1], ended.stderr
