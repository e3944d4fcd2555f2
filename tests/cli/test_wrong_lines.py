"""Command lines of a hostile or hasty user: each gets one line that says what is wrong, and exit status 2, before a weight
is read. The weights are pipes that nobody writes to: a program that opened one would never end."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import SOURCE, glint

SHARDS = ".safetensors"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("wrong")
    (root / "model").mkdir()
    for file in (SOURCE / "models/nano").iterdir():
        if file.suffix == SHARDS:
            os.mkfifo(root / "model" / file.name)
        elif file.is_file():
            shutil.copy(file, root / "model")
    for name in ("empty", "broken", "llama"):
        (root / name).mkdir()
    (root / "broken/config.json").write_text("{")
    (root / "llama/config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    (root / "file").write_text("x")
    (root / "bad.jinja").write_text("{% for %}")
    files = {
        "tab.yaml": "port: 1\n\tmodel: x\n",
        "twice.yaml": "port: 1\nport: 2\n",
        "typo.yaml": "model: x\nprot: 1\n",
        "list.yaml": "- port\n",
        "kind.yaml": "port: [1, 2]\n",
        "sign.yaml": "port: -1\n",
        "file.yaml": "config: twice.yaml\n",
        "names.yaml": "port: 1\nserved-model-name: {a: b}\n",
        "stages.yaml": "pp-size: 30\n",
        "deep.yaml": "default-chat-template-kwargs: " + "[" * 5000,
        "bomb.yaml": "default-chat-template-kwargs:\n  k0: &k0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"  k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 10)}]\n" for i in range(1, 9)),
    }
    for name, text in files.items():
        (root / name).write_text(text)
    (root / "latin.yaml").write_bytes('host: "\u00e9"\n'.encode("latin-1"))
    (root / "binary.yaml").write_bytes(bytes(range(256)))
    return root


# The words behind `glint serve`, and what the line must hold. Without MODEL the model is "model".
LINES = [
    # typos
    ("--tensor-paralel-size 8", "unrecognized arguments: --tensor-paralel-size (did you mean --tensor-parallel-size?)"),
    ("--max-model-length 4096", "did you mean --max-model-len?"),
    ("--max-num 1", "ambiguous option: --max-num could match"),
    ("--no-port", "unrecognized arguments: --no-port"),
    ("-z", "unrecognized arguments: -z"),
    ("other", "unrecognized arguments: other"),
    ("--speculative-config.methd mtp", "unknown key methd (did you mean method?)"),
    # values of the wrong kind, size or sign
    ("--port abc", "argument --port: invalid int value: 'abc'"),
    ("--port -1", "argument --port: expected a whole number from 0 to 65535, got -1"),
    ("--port 65536", "got 65536"),
    ("--port 99999999999999999999", "got 99999999999999999999"),
    ("--port", "argument --port: expected one argument"),
    ("--host=", "argument --host: expected a value, got an empty text"),
    ("--gpu-memory-utilization 1.5", "above 0 and at most 1, got 1.5"),
    ("--gpu-memory-utilization nan", "got nan"),
    ("--max-model-len 1e6", "invalid human_readable_int_or_auto value: '1e6'"),
    ("--max-model-len 1.5K", "Decimals are not allowed with binary suffixes"),
    ("--max-model-len 99999999T", "below 2^62"),
    ("--max-model-len 4611686018427387904", "below 2^62"),
    ("--max-model-len 1M", "User-specified max_model_len (1048576) is greater than the derived max_model_len"),
    ("--max-num-seqs 0", "'0' (expected 1 to 1048576)"),
    ("--max-num-seqs 4611686018427387903 --max-num-batched-tokens 4611686018427387903", "expected 1 to 1048576"),
    ("--max-num-batched-tokens 1T", "expected 1 to 16777216"),
    ("--chunked-prefill-size 100", "expected -1 or a multiple of 64"),
    ("--kv-cache-memory-bytes 99999999G", "are available"),
    ("--kv-cache-memory-bytes 1", "No available memory for the cache blocks"),
    ("--threads 100000", "expected a whole number from 1 to 1024"),
    ("--shutdown-timeout -1", "argument --shutdown-timeout"),
    ("--stream-interval 0", "argument --stream-interval"),
    ("--swap-space abc", "argument --swap-space: expected a number, got 'abc'"),
    ("--seed abc", "argument --seed: expected a number, got 'abc'"),
    ("--kv-cache-dtype fp8_e5m2", "argument --kv-cache-dtype: fp8_e5m2: sparse attention has no such rows"),
    ("--dtype float16", "choose bfloat16"),
    ("--quantization awq", "invalid choice: 'awq' (choose from"),
    ("--tool-call-parser hermes", "invalid choice: 'hermes' (choose from glm47, glm45, glm)"),
    ("--device tpu", "invalid choice: 'tpu'"),
    ("--speculative-config {", "expected a JSON object"),
    ("--speculative-config.method mtp --speculative-config.num_speculative_tokens 0", "expected 1 to 8, or auto"),
    ("--allowed-origins notjson", "expected a JSON list of strings"),
    ("--override-generation-config {\"temperature\":99}", "temperature is 99, expected a number in [0, 2]"),
    ("--log-level loud", "argument --log-level"),
    # what contradicts itself or the model
    ("--tp-size 4 --tensor-parallel-size 8", "argument --tp-size 4 and argument --tensor-parallel-size 8 name the same setting"),
    ("--max-running-requests 4 --max-num-seqs 8", "name the same setting and differ"),
    ("--enable-prefix-caching --disable-radix-cache", "name the same setting and differ"),
    ("--gpu-memory-utilization 0.9 --mem-fraction-static 0.9", "give one of them"),
    ("--busy-poll --sleep-on-idle", "exclude each other"),
    ("--max-num-seqs 512 --max-num-batched-tokens 256", "must be greater than or equal to max_num_seqs (512)"),
    ("--no-enable-chunked-prefill --max-num-batched-tokens 64", "argument --no-enable-chunked-prefill: a step of 64 tokens"),
    ("--enable-auto-tool-choice", "requires --tool-call-parser"),
    ("--per-request-spec-decode-metrics summary", "there are no drafts without --speculative-config"),
    ("--kv-disk-bytes 1g", "go together"),
    ("--ssl-keyfile file", "needs --ssl-certfile"),
    ("-tp 3", "Total number of attention heads (8) must be divisible by tensor parallel size (3)"),
    ("-pp 2 --pp-layer-partition 4,5", "sum(partitions)=9 does not match num_hidden_layers=8"),
    ("--quantization modelopt_fp4", "does not match the quantization method"),
    ("--revision v1", "model is a folder, which has no revisions"),
    ("MODEL=model --model other", "name the same setting and differ"),
    # files and folders that are not there or not what they should be
    ("MODEL=nowhere", "nowhere: no such folder"),
    ("MODEL=empty", "empty does not contain config.json"),
    ("MODEL=broken", "broken/config.json: not valid JSON"),
    ("MODEL=llama", 'model_type is "llama", expected "glm_moe_dsa"'),
    ("MODEL=file", "file: "),
    ("MODEL=", "expected a value, got an empty text"),
    ("--config missing.yaml", "argument --config: missing.yaml: cannot open"),
    ("--config empty", "argument --config: empty: cannot read: Is a directory"),
    ("--config tab.yaml", "tab.yaml:2: illegal tab"),
    ("--config twice.yaml", "twice.yaml:2: port: --port stands in line 1 too"),
    ("--config typo.yaml", "typo.yaml:2: unknown key prot (did you mean port?)"),
    ("--config list.yaml", "list.yaml:1: expected one `flag: value` a line"),
    ("--config kind.yaml", "kind.yaml:1: port: invalid int value"),
    ("--config sign.yaml", "sign.yaml:1: port: expected a whole number"),
    ("--config file.yaml", "file.yaml:1: config: a file cannot name another one"),
    ("--config names.yaml", "names.yaml:2: served-model-name: expected a list of texts"),
    ("--config stages.yaml", "stages.yaml:1: pp-size: 30: a stage begins"),
    ("--pp-size 30", "error: argument --pp-size: 30: a stage begins"),
    ("-pp 30", "error: argument -pp: 30: a stage begins"),
    ("--speculative-config {bad", "{\"name\": value, ...}: not valid JSON"),
    ("--config deep.yaml", "deep.yaml:"),
    ("--config bomb.yaml", "more than 10000 values"),
    ("--config latin.yaml", "argument --config: latin.yaml: not a text in UTF-8"),
    ("--config binary.yaml", "argument --config: binary.yaml: not a text in UTF-8"),
    ("--chat-template missing.jinja", "neither a file nor the text of a Jinja template"),
    ("--chat-template bad.jinja", "bad.jinja:1:8:"),
    ("--ssl-certfile missing.pem", "argument --ssl-certfile: missing.pem"),
    ("--ssl-certfile file", "argument --ssl-certfile: file"),
    ("--generation-config nowhere", "argument --generation-config: nowhere: no such folder"),
    ("--generation-config empty", "empty: does not contain generation_config.json"),
    ("--kv-disk-dir file --kv-disk-bytes 1g", "is no folder"),
    ("--kv-disk-dir /proc/none --kv-disk-bytes 1g", "argument --kv-disk-dir: /proc/none: cannot be made"),
    ("--download-dir file", "argument --download-dir: "),
    ("--watchdog-dump nowhere/steps", "argument --watchdog-dump: "),
    ("--uds nowhere/socket", "argument --uds: nowhere/socket: no such file or directory"),
    ("--uds " + "x" * 200, "a socket's path may have 107 bytes"),
    # addresses that cannot be had: known before the model is opened
    ("--host no-such-host.invalid", "argument --host: no-such-host.invalid: no such address or name"),
    ("--host 192.0.2.1 --port 0", "cannot assign requested address"),
    ("--host \udcff", "argument --host"),
    # what this engine does not do
    ("--enable-lora", "argument --enable-lora: adapters are not supported"),
    ("--middleware x.y", "this program runs no Python"),
    ("--nnodes 2", "argument --nnodes: 2: one machine serves a model: 1 is possible"),
    ("--load-format gguf", "checkpoints are read from safetensors"),
    ("--linear-backend aiter", "needs an AMD GPU"),
    ("--hf-token hf_x", "put it into HF_TOKEN"),
]

VARIABLES = [
    ({"VLLM_LOGGING_LEVEL": "LOUD"}, "environment variable VLLM_LOGGING_LEVEL"),
    ({"VLLM_PP_LAYER_PARTITION": "x"}, "environment variable VLLM_PP_LAYER_PARTITION"),
    ({"VLLM_BATCH_INVARIANT": "2"}, "environment variable VLLM_BATCH_INVARIANT: expected true or false, got '2'"),
    ({"WORLD_SIZE": "8", "RANK": "0"}, "environment variable WORLD_SIZE 8: one process computes all ranks"),
    ({"LOCAL_RANK": "x"}, "environment variable LOCAL_RANK: invalid int value: 'x'"),
]


def refused(place: Path, words: list[str], wanted: str, **variables: str) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **variables}
    done = glint("serve", *words, cwd=place, env=environment, errors="surrogateescape")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    line, end, rest = done.stderr.partition("\n")
    assert (end, rest) == ("\n", ""), done.stderr
    assert line.startswith("glint serve: error: ") and wanted in line, line
    assert len(line) < 500, line


@pytest.mark.parametrize(("line", "wanted"), LINES, ids=[line[:40].encode("ascii", "replace").decode() for line, _ in LINES])
def test_a_wrong_line(place, line, wanted):
    words = line.split(" ")
    model = words.pop(0).removeprefix("MODEL=") if line.startswith("MODEL=") else "model"
    refused(place, [model, *words], wanted)


@pytest.mark.parametrize(("variables", "wanted"), VARIABLES, ids=[next(iter(variables)) for variables, _ in VARIABLES])
def test_a_wrong_variable(place, variables, wanted):
    refused(place, ["model"], wanted, **variables)


def test_an_address_in_use(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused(place, ["model", "--host", "127.0.0.1", "--port", port], "choose another --port")
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(place / "taken.sock"))
        taken.listen()
        refused(place, ["model", "--uds", "taken.sock"], "choose another path")
    refused(place, ["model", "--uds", "."], "exists and is not a socket")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("flags", [[], ["--config", "closed/serve.yaml"], ["--kv-disk-dir", "closed/kv", "--kv-disk-bytes", "1g"]])
def test_folders_that_may_not_be_read(place, tmp_path_factory, flags):
    """As a user without rights, from a copy of the program where everybody may run it."""
    root = Path("/var/tmp") / tmp_path_factory.mktemp("closed").name
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(place / "model", root / "model", ignore=shutil.ignore_patterns("*" + SHARDS))
    try:
        for file in (place / "model").glob("*" + SHARDS):
            os.mkfifo(root / "model" / file.name)
        (root / "closed").mkdir(mode=0o700)
        (root / "closed/serve.yaml").write_text("port: 1\n")
        for path in (root, root / "model"):
            path.chmod(0o755)
        program = shutil.copy(os.environ["GLINT_BIN"], root / "glint")
        model = "model" if flags else "closed"
        done = subprocess.run([program, "serve", model, *flags], cwd=root, env={"HF_HUB_OFFLINE": "1"}, user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "ermission denied" in done.stderr, done.stderr
    finally:
        shutil.rmtree(root)
