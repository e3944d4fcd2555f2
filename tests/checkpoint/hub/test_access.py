"""Tokens, refusals, redirects, proxies, certificates, and what is shown meanwhile."""

import os
import pty
import select
import socket
import ssl
import subprocess
import threading

import pytest
from conftest import NAME, Client, model_files
from loopback_hub import Hub, Model

SECRET = "hf_SecretSecretSecret"


@pytest.fixture
def private(hub):
    hub.models[NAME].token = SECRET
    return hub.models[NAME]


def test_the_token_goes_to_the_hub_alone(client, hub, private):
    done = client.run(HF_TOKEN=SECRET)
    assert done.status == 0, done.err
    assert hub.asked("", cdn=True) and hub.asked("", cdn=False)
    assert all("authorization" not in r.headers for r in hub.asked("", cdn=True))
    assert all(r.headers["authorization"] == "Bearer " + SECRET for r in hub.asked("", cdn=False))
    assert SECRET not in done.err + done.out


def test_the_token_stays_on_redirects_within_the_hub(client, hub, private):
    hub.models["old-org/GLM"] = private
    hub.fail(f"/{NAME}/resolve/.*/config.json", "redirect", Location="/old-org/GLM/resolve/main/config.json")
    assert client.run(NAME, "--files", "config", HF_TOKEN=SECRET).status == 0


@pytest.mark.parametrize("place", ["home", "HF_HOME", "HF_TOKEN_PATH"])
def test_the_token_file(client, private, tmp_path, place):
    file = {"home": client.home / ".cache/huggingface/token", "HF_HOME": tmp_path / "hf/token",
            "HF_TOKEN_PATH": tmp_path / "my-token"}[place]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SECRET + "\n")
    env = {} if place == "home" else {place: str(file if place == "HF_TOKEN_PATH" else file.parent)}
    assert client.run(NAME, "--files", "config", **env).status == 0
    refused = client.run("org/other", "--files", "config", HF_HUB_DISABLE_IMPLICIT_TOKEN="1", **env)
    assert refused.status == 1 and "HF_TOKEN" in refused.last_line


def test_a_token_cannot_write_headers(client, hub):
    done = client.run(HF_TOKEN="a\r\nX-Evil: 1")
    assert done.status == 1 and "HF_TOKEN holds no access token" in done.last_line and "Evil" not in done.last_line
    assert not hub.requests


def test_refusals(client, hub, private):
    nobody = client.run()
    assert nobody.status == 1 and "shows it to nobody without a token (401)" in nobody.last_line
    wrong = client.run(HF_TOKEN="hf_wrong")
    assert wrong.status == 1 and "does not show it to this token (401)" in wrong.last_line
    assert "hf_wrong" not in wrong.err
    private.gated = True
    gated = client.run(HF_TOKEN="hf_wrong")
    assert f"{NAME} is gated (403): accept its terms at {hub.url}/{NAME}" in gated.last_line
    missing = client.run("org/none")
    assert missing.status == 1 and missing.last_line.count("org/none") == 1
    for status in (400, 403, 404, 410):
        hub.faults.clear()
        hub.fail("/revision/", "status", value=status)
        done = client.run()
        assert done.status == 1 and str(status) in done.last_line, done.err
        assert len(done.err.strip().splitlines()) == 1, "no second attempt"


def test_what_is_no_hub(client, hub):
    hub.fail("/revision/", "redirect", Location="/api/models/x/y")
    hub.models["x/y"] = Model(refs={"main": "z"}, commits={"z": {}})
    done = client.run()
    assert done.status == 1 and "names no commit" in done.last_line and "HF_ENDPOINT" in done.last_line
    assert "expected http://" in client.run(HF_ENDPOINT="localhost:1").last_line


def test_redirects_that_do_not_end(client, hub):
    hub.fail("/tree/", "redirect", times=1000, Location="?again")
    done = client.run()
    assert done.status == 1 and "more than 10 redirects" in done.last_line


def test_lines_without_a_terminal(client, hub):
    hub.pause_s = 0.01
    done = client.run()
    lines = [line for line in done.err.splitlines() if line.startswith("Downloading")]
    assert lines and "100 %" in lines[-1] and f"3 files of {NAME}" in lines[-1]
    assert "\r" not in done.err
    quiet = client.run(NAME, "--download-dir", str(client.home / "q"), HF_HUB_DISABLE_PROGRESS_BARS="1")
    assert quiet.status == 0 and quiet.err == ""


def test_a_bar_on_a_terminal(client, hub):
    hub.pause_s = 0.03
    ours, theirs = pty.openpty()
    process = subprocess.Popen([client.program, NAME], env=client.env, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 30)
        try:
            piece = os.read(ours, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=10) == 0
    assert shown.count(b"\rDownloading 3 files") > 3 and b"[####" in shown and b"GB/s" in shown


class Proxy:
    """An HTTP proxy that forwards one GET or a tunnel, and keeps what it was asked for."""

    def __init__(self):
        self.lines: list[str] = []
        self.heads: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        line = head.split(b"\r\n")[0].decode()
        self.lines.append(line)
        self.heads.append(head.decode())
        method, target, _ = line.split()
        place = target if method == "CONNECT" else target.split("/")[2]
        host, port = place.rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = "/" + target.split("/", 3)[3]
            head = head.replace(target.encode(), path.encode(), 1).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            server.sendall(head)
        back = threading.Thread(target=self.copy, args=(server, client), daemon=True)
        back.start()
        self.copy(client, server)

    @staticmethod
    def copy(source: socket.socket, target: socket.socket):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_an_http_proxy(client, hub):
    proxy = Proxy()
    done = client.run(http_proxy=f"http://user:p%40ss@127.0.0.1:{proxy.port}", NO_PROXY="example.org, .0.0.1")
    assert done.status == 0, done.err
    assert proxy.lines and all(line.startswith(f"GET {hub.url}/") for line in proxy.lines), "the CDN is 127.0.0.1: direct"
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz" in proxy.heads[0]
    assert client.run(NAME, "--refresh", http_proxy="https://x").status == 1


def make_certificate(folder, names: str):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out",
                    folder / "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=" + names],
                   check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "DNS:localhost,IP:127.0.0.1")


def tls_hub(certificate) -> Hub:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    hub = Hub(tls=context)
    hub.models[NAME] = Model()
    hub.models[NAME].commit(model_files())
    return hub


@pytest.fixture
def tls_client(certificate, tmp_path):
    hub = tls_hub(certificate)
    (tmp_path / "home").mkdir()
    yield Client(hub, tmp_path / "home")
    hub.close()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_tls_with_a_trusted_certificate(tls_client, certificate, variable):
    done = tls_client.run(**{variable: str(certificate / "cert.pem")})
    assert done.status == 0, done.err


def test_tls_with_a_stranger(tls_client, certificate):
    done = tls_client.run()
    assert done.status == 1 and "its certificate is refused (self-signed certificate)" in done.last_line, done.err
    assert len(done.err.strip().splitlines()) == 1 and not tls_client.hub.requests


def test_tls_with_a_trusted_certificate_of_others(tls_client, tmp_path_factory):
    folder = make_certificate(tmp_path_factory.mktemp("other"), "DNS:hub.example,IP:127.0.0.2")
    hub = tls_hub(folder)
    for place, why in ((hub.url, "hostname mismatch"), (hub.url.replace("localhost", "127.0.0.1"), "IP address mismatch")):
        done = tls_client.run(SSL_CERT_FILE=str(folder / "cert.pem"), HF_ENDPOINT=place)
        assert done.status == 1 and f"its certificate is refused ({why})" in done.last_line, done.err
    assert not hub.requests
    hub.close()


def test_tls_through_a_proxy(tls_client, certificate):
    proxy = Proxy()
    done = tls_client.run(SSL_CERT_FILE=str(certificate / "cert.pem"), HTTPS_PROXY=f"127.0.0.1:{proxy.port}")
    assert done.status == 0, done.err
    assert proxy.lines and all(line.startswith("CONNECT ") for line in proxy.lines)


def test_no_way_from_tls_to_plain(tls_client, certificate):
    tls_client.hub.fail("/tree/", "redirect", Location="http://localhost:1/x")
    done = tls_client.run(SSL_CERT_FILE=str(certificate / "cert.pem"))
    assert done.status == 1 and "not encrypted" in done.last_line
