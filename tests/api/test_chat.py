"""`glint chat` in pipes and on a terminal, with a scripted server and with nano."""

import json
import os
import subprocess
import termios
import time

import pytest

from chat_support import FakeServer, Terminal
from conftest import _program, wait_until

UP, LEFT, HOME = "\x1b[A", "\x1b[D", "\x1b[H"


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.close()


def pipe(target: str, text: str, *flags: str, status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([_program("GLINT_BIN"), "chat", target, *flags], input=text.encode(), capture_output=True, timeout=60)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def terminal(fake):
    open_ones = []

    def start(*flags: str, target: str | None = None) -> Terminal:
        made = Terminal(_program("GLINT_BIN"), "chat", target or fake.url, *flags)
        open_ones.append(made)
        return made
    yield start
    for made in open_ones:
        made.close()


def test_pipe_gets_answers_alone(fake):
    done = pipe(fake.url, "one\ntwo\n")
    assert done.stdout == "You said: one\nYou said: two\n"
    assert done.stderr == ""
    first, second = fake.requests
    assert first["messages"] == [{"role": "user", "content": "one"}]
    assert first["model"] == "fake" and first["stream"] is True and first["stream_options"] == {"include_usage": True}
    assert second["messages"] == [{"role": "user", "content": "one"},
                                  {"role": "assistant", "content": "You said: one", "reasoning_content": "I think so."},
                                  {"role": "user", "content": "two"}]


def test_reasoning_in_a_pipe_is_shown_on_demand(fake):
    assert pipe(fake.url, "one\n", "--reasoning", "show").stdout == "I think so.\nYou said: one\n"


def test_every_byte_may_come_alone(fake):
    assert pipe(fake.url, "bytes\n").stdout == "You said: bytes\n"


def test_settings_reach_the_request(fake):
    pipe(fake.url, "/system Be brief.\n/effort low\n/temperature 0.5\n/max 99\na\n/effort default\n/temperature default\n/max default\n/system\n/reset\nb\n")
    first, second = fake.requests
    assert (first["reasoning_effort"], first["temperature"], first["max_completion_tokens"]) == ("low", 0.5, 99)
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert second["messages"] == [{"role": "user", "content": "b"}]
    assert not {"reasoning_effort", "temperature", "max_completion_tokens"} & set(second)


def test_flags_reach_the_request(fake):
    pipe(fake.url, "a\n", "--system", "S", "--effort", "max", "--temperature", "0", "--max-tokens", "5", "--model", "other", "--api-key", "secret")
    body = fake.requests[0]
    assert (body["model"], body["reasoning_effort"], body["temperature"], body["max_completion_tokens"]) == ("other", "max", 0, 5)
    assert fake.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("line, part", [("/effort medium", "low, high, max"), ("/temperature warm", "0 to 2"), ("/max -1", "from 1"), ("/dance", "/help"),
                                        ("/load /no/such", "/no/such"), ("/result x", "no tool call"), ("/regenerate", "nothing"), ("/reasoning loud", "fold")])
def test_wrong_commands_harm_nothing(fake, line, part):
    done = pipe(fake.url, f"{line}\nhello\n", status=1)
    assert part in done.stderr and done.stdout == "You said: hello\n"


def test_escape_sequences_are_shown_not_obeyed(fake):
    out = pipe(fake.url, "escape\n", "--reasoning", "show").stdout
    assert out == "^[[31mred ^G\n^[]0;owned^G^[[2Ja^Mb <9B>31m <202E> ^H ^? end\n"


def test_refusal_is_told_and_forgotten(fake):
    done = pipe(fake.url, "refuse\nhello\n", status=1)
    assert "400" in done.stderr and "not^[[31m today" in done.stderr and "\x1b" not in done.stderr
    assert fake.requests[1]["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("message, part", [("break", "broke"), ("error", "the engine has stopped")])
def test_broken_answers_are_told(fake, message, part):
    assert part in pipe(fake.url, f"{message}\n", status=1).stderr


def test_messages_of_several_lines(fake):
    pipe(fake.url, 'a\\\nb\n"""\nc\n\nd\\\n"""\n//slash\n')
    assert [r["messages"][-1]["content"] for r in fake.requests] == ["a\nb", "c\n\nd\\\n", "/slash"]


def test_save_load_and_regenerate(fake, tmp_path):
    file = tmp_path / "talk.json"
    pipe(fake.url, f"/effort high\none\n/save {file}\n/regenerate\n/save {file}\n", status=1)  # the second save would overwrite
    assert fake.requests[1]["messages"] == [{"role": "user", "content": "one"}]
    saved = json.loads(file.read_text())
    assert saved["effort"] == "high" and len(saved["messages"]) == 2
    pipe(fake.url, "two\n", "--load", str(file))
    assert [m["role"] for m in fake.requests[2]["messages"]] == ["user", "assistant", "user"]
    assert fake.requests[2]["reasoning_effort"] == "high"
    file.write_text('{"messages": [{"role": "root"}]}')
    assert "root" in pipe(fake.url, "", "--load", str(file), status=2).stderr


def test_tool_call_and_its_result(fake, tmp_path):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    done = pipe(fake.url, "tool\n/result rain\n", "--tools", str(tmp_path / "tools.json"))
    assert done.stdout == 'get_weather({"city": "Oslo"})\nYou said: rain\n'
    assert fake.requests[0]["tools"] == tools
    call, result = fake.requests[1]["messages"][1:]
    assert call["tool_calls"] == [{"id": "call_7", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
    assert result == {"role": "tool", "content": "rain", "tool_call_id": "call_7"}


@pytest.mark.parametrize("target, status, part", [("https://example.org", 2, "https"), ("http://127.0.0.1:1", 1, "no connection"), ("ftp://x", 2, "http://"), ("http://x:70000", 2, "port"),
                                                  ("/no/such/model", 2, "/no/such/model")])
def test_unreachable_targets(target, status, part):
    assert part in pipe(target, "hello\n", status=status).stderr


def test_terminal_shows_thought_dimmed_and_figures(terminal):
    t = terminal()
    t.expect(r"fake; /help")
    t.expect(r"> ")
    t.send("hello\r")
    t.expect(r"\x1b\[2mI think so\.\x1b\[0m")
    t.expect(r"You said: hello")
    t.expect(r"\[11 \+ 7 tokens \(3 of thought\), [\d.]+ tokens/s, first after [\d.]+ s\]")
    t.expect(r"> ")
    t.send("/reasoning fold\r")
    t.expect(r"reasoning fold")
    t.send("again\r")
    t.expect(r"thought for [\d.]+ s")
    t.expect(r"You said: again")
    assert "I think" not in t.output[t.output.index("thought for"):]
    t.expect(r"> ")
    t.send("\x04")
    assert t.wait() == 0
    assert termios.tcgetattr(t.slave) == t.before, "the terminal is left as it was"


def test_ctrl_c_stops_the_answer_and_the_second_leaves(terminal, fake):
    t = terminal()
    t.expect(r"> ")
    t.send("slow\r")
    t.expect(r"begin 0 1 ")
    t.send("\x03")
    t.expect(r"stopped\]")
    assert fake.gone.wait(10), "the server was not told"
    t.expect(r"> ")
    t.send("hello\r")
    t.expect(r"You said: hello")
    assert fake.requests[1]["messages"][1]["content"].startswith("begin 0 1 ")
    t.expect(r"> ")
    t.send("slow\r")
    t.expect(r"begin 0 ")
    t.send("\x03")
    t.expect(r"stopped\]")
    t.expect(r"> ")
    t.send("\x03")
    assert t.wait() == 0


def test_ctrl_c_at_the_prompt(terminal, fake):
    t = terminal()
    t.expect(r"> ")
    t.send("never sent")
    t.expect(r"never sent")
    t.send("\x03")
    t.expect(r"> ")
    t.send("\x03")
    t.expect(r"Ctrl-C again leaves")
    t.expect(r"> ")  # what is typed before the prompt is back has the terminal's own line ends
    t.send("hello\r")
    t.expect(r"You said: hello")
    assert fake.requests[0]["messages"] == [{"role": "user", "content": "hello"}]
    t.expect(r"> ")
    t.send("\x03")
    t.expect(r"again leaves")
    t.expect(r"> ")
    t.send("\x03")
    assert t.wait() == 0


def test_editing_history_and_several_lines(terminal, fake):
    t = terminal()
    t.expect(r"> ")
    said = []

    def say(keys: str, want: str):
        said.append(want)
        t.send(keys + "\r")
        assert wait_until(lambda: len(fake.requests) == len(said)), t.output
        t.expect(r"tokens/s")
        t.expect(r"> ")
        assert fake.requests[-1]["messages"][-1]["content"] == want
    say("helo" + LEFT + "l", "hello")
    say(UP + "!", "hello!")
    say(UP + UP + UP, "hello")
    say("b" + HOME + "ä" + "\x05c\x7fd", "äbd")
    say("one two" + "\x17" + "three", "one three")
    say("first\x1b\rsecond\nthird\\\rfourth", "first\nsecond\nthird\nfourth")
    say("\x1b[200~pasted\rlines\x1b[201~ here", "pasted\nlines here")
    say("日本語" + LEFT + "\x7f", "日語")


def test_nano_answers_through_a_server_of_its_own():
    done = pipe("nano", "What is 345 + 278?\nHello\n", "--temperature", "0", "--", "--threads", "1")
    first, second = done.stdout.splitlines()
    assert "623" in first and "nano" in second
    assert done.stderr == ""


def test_nano_on_a_terminal_ends_its_server(terminal):
    t = terminal("--temperature", "0", "--", "--threads", "1", target="nano")
    t.expect(r"/help", 60)
    t.expect(r"> ")
    children = subprocess.run(["ps", "--no-headers", "-o", "pid", "--ppid", str(t.process.pid)], capture_output=True, text=True).stdout.split()
    assert len(children) == 1
    t.send("7 + 8\r")
    t.expect(r"= 15", 60)
    t.expect(r"> ")
    t.process.kill()  # even then
    assert wait_until(lambda: not os.path.exists(f"/proc/{children[0]}") or open(f"/proc/{children[0]}/stat").read().split()[2] == "Z", 20)


def test_wrong_serve_flag_is_told():
    done = pipe("nano", "hello\n", "--", "--max-model-len", "nonsense", status=2)
    assert "max-model-len" in done.stderr


def test_everything_printed_is_soon_there(fake):
    """A pipe sees the pieces as they come, not at the end."""
    process = subprocess.Popen([_program("GLINT_BIN"), "chat", fake.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"slow\n")
    process.stdin.flush()
    begin = time.monotonic()
    got = b""
    while b"begin 0 " not in got:
        got += os.read(process.stdout.fileno(), 100)
    assert time.monotonic() - begin < 5
    process.kill()
    process.wait()
