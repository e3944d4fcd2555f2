"""A hub, a network and a machine that fail: every published file is right, and what came is used again."""

import random
import signal
import subprocess
import time

import pytest
from conftest import NAME, SHARD_BYTES, SHARDS, WANTED, check_published, model_files
from loopback_hub import File


def assert_whole(client, done):
    assert done.status == 0, done.err
    assert check_published(client.cache, model_files()) == len(WANTED)
    assert not list(client.cache.glob("models--*/blobs/*.incomplete"))
    assert not list(client.cache.glob("models--*/.glint*"))


def test_a_dropped_connection_continues_where_it_ended(client, hub):
    shard = model_files()[SHARDS[0]].sum
    hub.fail(shard, "drop", value=300_000)
    hub.fail(shard, "drop", value=200_000)
    done = client.run()
    assert_whole(client, done)
    assert [r.start for r in hub.asked(shard, cdn=True)] == [0, 300_000, 500_000]
    assert "ended" in done.err and "again in" in done.err


def test_a_cut_download_continues_in_the_next_process(client, hub):
    shard = model_files()[SHARDS[1]].sum
    hub.fail(shard, "drop", value=400_000)
    hub.fail(shard, "status", times=99, value=503)
    done = client.run()
    assert done.status == 1 and "503" in done.last_line and "attempts" in done.last_line
    assert len(hub.asked(shard, cdn=True)) == 6, "six attempts, the first of which brought something"
    hub.faults.clear()
    hub.requests.clear()
    again = client.run()
    assert_whole(client, again)
    assert [r.start for r in hub.asked(shard, cdn=True)] == [400_000]


@pytest.mark.parametrize("kind", ["truncate", "ignore_range", "416", "wrong_range", "corrupt", "longer"])
def test_one_wrong_answer_is_overcome(client, hub, kind):
    shard = model_files()[SHARDS[0]].sum
    hub.fail(shard, "drop", value=250_000)
    hub.fail(shard, kind, value=100_000)
    assert_whole(client, client.run())


@pytest.mark.parametrize("name", [SHARDS[0], "config.json"])
def test_a_hub_that_lies_about_a_sum_gets_nothing_published(client, hub, name):
    files = model_files()
    true_sum = files[name].sum
    files[name].listed_sum = "0" * len(true_sum)
    hub.models[NAME].commit(files)
    done = client.run()
    kind = "SHA-256" if len(true_sum) == 64 else "git SHA-1"
    assert done.status == 1 and f"its {kind} is {true_sum}, the hub lists 000" in done.last_line, done.err
    assert not (client.cache / "models--zai-org--GLM-tiny/blobs" / files[name].sum).exists()
    assert not list(client.cache.glob(f"models--*/snapshots/*/{name}"))
    assert not (client.cache / "models--zai-org--GLM-tiny/refs/main").exists()


@pytest.mark.parametrize("kind", ["corrupt", "truncate", "wrong_range", "416", "longer"])
def test_a_hub_that_is_always_wrong_is_given_up(client, hub, kind):
    shard = model_files()[SHARDS[0]].sum
    hub.fail(shard, "drop", value=1000)
    hub.fail(shard, kind, times=1000, value=0)
    done = client.run()
    assert done.status == 1 and len(done.last_line) < 400, done.err
    check_published(client.cache, model_files())
    assert not list(client.cache.glob(f"models--*/snapshots/*/{SHARDS[0]}"))


def test_bytes_on_disk_that_are_wrong_are_found(client, hub):
    blobs = client.cache / "models--zai-org--GLM-tiny/blobs"
    blobs.mkdir(parents=True)
    (blobs / (model_files()[SHARDS[0]].sum + ".incomplete")).write_bytes(b"\0" * 5000)
    (blobs / (model_files()[SHARDS[1]].sum + ".incomplete")).write_bytes(b"\0" * (SHARD_BYTES + 1))
    (blobs / (model_files()[SHARDS[2]].sum + ".incomplete")).write_bytes(model_files()[SHARDS[2]].data)
    done = client.run()
    assert_whole(client, done)
    assert "starting it again" in done.err
    assert not hub.asked(model_files()[SHARDS[2]].sum, cdn=True), "whole already"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_hub_is_asked_again(client, hub, status):
    for path in ("/revision/", "/tree/", "/resolve/", "/blob/"):
        hub.fail(path, "status", value=status)
    assert_whole(client, client.run())


def test_retry_after_is_respected(client, hub):
    hub.fail("/revision/", "status", value=429, Retry_After="1")
    begin = time.monotonic()
    done = client.run()
    assert_whole(client, done)
    assert time.monotonic() - begin >= 1 and "(429)" in done.err and "again in 1.0 s" in done.err


def test_silence_ends_a_request(client, hub):
    hub.fail("/revision/", "hang", value=4)
    assert_whole(client, client.run(HF_HUB_DOWNLOAD_TIMEOUT="1"))


def test_nobody_there(client, hub):
    hub.close()
    done = client.run()
    assert done.status == 1 and "Connection refused" in done.last_line and hub.url in done.last_line
    done = client.run(HF_ENDPOINT="http://no-such-host.invalid")
    assert done.status == 1 and "no-such-host.invalid: the name cannot be resolved" in done.last_line


def test_kill_at_any_moment(client, hub):
    # A shard is eleven pieces, so the quickest machine needs half a second: more than three rounds of the longest life.
    hub.pause_s = 0.05
    random_pause = random.Random(5)
    rounds = 0
    for rounds in range(1, 60):
        process = client.start()
        try:
            process.wait(timeout=random_pause.uniform(0.01, 0.15))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        check_published(client.cache, model_files())
        if process.returncode == 0:
            break
    assert rounds > 3, "nothing was killed"
    done = client.run()
    assert done.status == 0 and check_published(client.cache, model_files()) == len(WANTED)
    whole = sum(len(file.data) for name, file in model_files().items() if name in WANTED)
    assert hub.sent_bytes < 3 * whole, "what was brought is used"


def test_two_processes_at_once(client, hub):
    hub.pause_s = 0.01
    processes = [client.start() for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert check_published(client.cache, model_files()) == len(WANTED)
    for name in SHARDS:
        assert len(hub.asked(model_files()[name].sum, cdn=True)) == 1, "brought once"


def test_glint_and_python_at_once(client, hub):
    hub.pause_s = 0.005
    ours = client.start()
    client.python(f"import huggingface_hub as h; h.snapshot_download({NAME!r}, allow_patterns={WANTED!r})")
    _, err = ours.communicate(timeout=60)
    assert ours.returncode == 0, err
    assert check_published(client.cache, model_files()) == len(WANTED)


def test_a_disk_without_room_is_said_first(client, hub):
    files = model_files()
    files[SHARDS[0]] = File(b"x", large=True, listed_bytes=10**15)
    hub.models[NAME].commit(files)
    done = client.run()
    assert done.status == 1 and f"{NAME} needs 1000000.01 GB" in done.last_line
    assert f"{10**15 + 2 * SHARD_BYTES} bytes" in done.last_line and "are free" in done.last_line, done.err
    assert "--download-dir" in done.last_line
    assert not [r for r in hub.asked("/blob/") if files["tokenizer.json"].sum not in r.path]


def test_a_file_that_cannot_grow_is_one_line(client):
    import resource
    limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    done = subprocess.run([client.program, NAME], env=client.env, preexec_fn=limit, text=True, capture_output=True, timeout=60)
    assert done.returncode == 1 and "cannot write: File too large" in done.stderr.strip().splitlines()[-1]
    assert_whole(client, client.run())


def test_an_index_that_names_what_is_not_there(client, hub):
    files = model_files()
    del files[SHARDS[2]]
    hub.models[NAME].commit(files)
    done = client.run()
    assert done.status == 1 and f"has no file {SHARDS[2]}, which its model.safetensors.index.json names" in done.last_line


@pytest.mark.parametrize("name", ["../evil.safetensors", "a/../../evil.safetensors", "/etc/evil.safetensors"])
def test_names_that_lead_out_of_the_folder(client, hub, name, tmp_path):
    files = model_files()
    index = files["model.safetensors.index.json"].data.replace(SHARDS[0].encode(), name.encode())
    files["model.safetensors.index.json"] = File(index)
    files[name] = File(b"evil", large=True)
    hub.models[NAME].commit(files)
    done = client.run()
    assert done.status == 1
    assert not [path for path in tmp_path.rglob("evil*")]
