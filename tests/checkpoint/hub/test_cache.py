"""The cache: the same as huggingface_hub's, in both directions, and what is asked of the network."""

import os
import stat
from pathlib import Path

import pytest
from conftest import NAME, WANTED, check_published, model_files
from loopback_hub import File, Model

SNAPSHOT = f"import huggingface_hub as h; print(h.snapshot_download({NAME!r}, allow_patterns={WANTED!r}))"


def tree(cache: Path) -> dict[str, str]:
    """Every entry below a cache but locks and Python's own notes, with link targets, bytes and modes."""
    entries = {}
    for folder, _, names in os.walk(cache):
        for name in names:
            path = Path(folder) / name
            inside = str(path.relative_to(cache))
            if path.is_symlink():
                entries[inside] = "-> " + os.readlink(path)
            elif "/trees/" not in inside and inside != "CACHEDIR.TAG":
                entries[inside] = f"{stat.S_IMODE(path.stat().st_mode):o} {path.read_bytes()!r}"
    return entries


def test_layout_is_that_of_huggingface_hub(client, tmp_path):
    done = client.run()
    assert done.status == 0 and done.source == "hub", done.err
    client.python(SNAPSHOT, HF_HUB_CACHE=str(tmp_path / "python"))
    ours, theirs = tree(client.cache), tree(tmp_path / "python")
    assert ours == theirs
    assert done.folder == client.cache / "models--zai-org--GLM-tiny/snapshots" / done.commit
    assert (client.cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_only_what_is_used_is_fetched(client, hub):
    assert client.run().status == 0
    names = {path.name for path in client.cache.glob("models--*/snapshots/*/*")}
    assert names == set(WANTED)
    assert not hub.asked("README") and not hub.asked("pytorch_model") and not hub.asked("consolidated")


def test_a_cache_filled_by_python_is_used_without_network(client, hub):
    folder = client.python(SNAPSHOT)
    hub.close()
    done = client.run()
    assert (done.status, done.source) == (0, "cache"), done.err
    assert str(done.folder) == folder


def test_a_cache_filled_by_glint_is_used_by_python_offline(client, hub):
    done = client.run()
    hub.close()
    code = f"import huggingface_hub as h; print(h.snapshot_download({NAME!r}, allow_patterns={WANTED!r}))"
    assert client.python(code, HF_HUB_OFFLINE="1") == str(done.folder)
    code = f"import huggingface_hub as h; print(h.hf_hub_download({NAME!r}, 'tokenizer.json'))"
    assert client.python(code, HF_HUB_OFFLINE="1") == str(done.folder / "tokenizer.json")
    code = f"import huggingface_hub as h; print([len(r.revisions) for r in h.scan_cache_dir().repos], h.scan_cache_dir().warnings)"
    assert client.python(code) == "[1] []"


def test_python_fetches_nothing_that_glint_has(client, hub):
    client.run()
    sent = len(hub.asked("/blob/"))
    client.python(SNAPSHOT)
    assert len(hub.asked("/blob/")) == sent


def test_what_python_left_half_is_completed(client, hub):
    client.python(f"import huggingface_hub as h; h.snapshot_download({NAME!r}, allow_patterns=['*.json'])")
    done = client.run()
    assert (done.status, done.source) == (0, "hub"), done.err
    assert check_published(client.cache, model_files()) == len(WANTED)
    assert len([r for r in hub.asked("/blob/") if r.method == "GET"]) == 4  # three shards, tokenizer.json once


def test_second_run_needs_no_network(client, hub):
    client.run()
    asked = len(hub.requests)
    assert client.run().source == "cache"
    assert len(hub.requests) == asked


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_places_of_the_cache(client, tmp_path, variable):
    below = {"HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub"}.get(variable, "")
    done = client.run(NAME, "--files", "config", **{variable: "$HOME/else${HOME}"})
    place = f"{client.home}/else{client.home}"
    assert done.folder.is_relative_to(Path(place) / below), done
    code = "import huggingface_hub.constants as c; print(c.HF_HUB_CACHE)"
    if variable not in ("HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):  # Python expands those two only through the others
        assert client.python(code, **{variable: "$HOME/else${HOME}"}) == str(Path(place) / below)


def test_download_dir(client, tmp_path):
    done = client.run(NAME, "--download-dir", str(tmp_path / "disk"))
    assert done.folder.is_relative_to(tmp_path / "disk/models--zai-org--GLM-tiny"), done
    assert not client.cache.exists()


def test_config_alone(client, hub):
    done = client.run(NAME, "--files", "config")
    assert done.status == 0
    assert [path.name for path in done.folder.iterdir()] == ["config.json"]
    assert not hub.asked("/blob/")
    assert client.run(NAME, "--files", "config").source == "cache"
    assert client.run(NAME, "--files", "text").source == "hub"
    assert not hub.asked(model_files()["model-00001-of-00003.safetensors"].sum)
    assert client.run().source == "hub"
    assert client.run().source == "cache"


def test_revisions(client, hub):
    model = hub.models[NAME]
    old = model.refs["main"]
    new = model.commit(model_files(1), "main", "refs/pr/1", "v2")
    by_commit = client.run(NAME, "--revision", old)
    assert by_commit.commit == old and (by_commit.folder / "config.json").read_bytes() == model_files()["config.json"].data
    assert not (client.cache / "models--zai-org--GLM-tiny/refs").exists()
    for revision in ("main", "refs/pr/1", "v2"):
        done = client.run(NAME, "--revision", revision)
        assert done.commit == new, done.err
        assert (client.cache / "models--zai-org--GLM-tiny/refs" / revision).read_text() == new
    assert client.run(NAME, "--revision", "refs/pr/1").source == "cache"
    missing = client.run(NAME, "--revision", "v9")
    assert missing.status == 1 and "has no revision v9" in missing.last_line
    assert client.run(NAME, "--revision", "../x").status == 1


def test_refresh_follows_the_branch_and_keeps_what_is_equal(client, hub):
    client.run()
    files = model_files()
    files["config.json"] = File(b'{"model_type": "glm_moe_dsa", "new": true}')
    new = hub.models[NAME].commit(files)
    assert client.run().commit != new, "the cache answers"
    sent = len(hub.asked("/blob/"))
    done = client.run(NAME, "--refresh")
    assert (done.status, done.commit) == (0, new), done.err
    assert len(hub.asked("/blob/")) == sent
    assert client.run().commit == new


def test_a_look_at_a_newer_config_keeps_the_whole_older_commit(client, hub):
    old = client.run().commit
    hub.models[NAME].commit(model_files(1))
    client.run(NAME, "--files", "config", "--refresh")
    assert client.run(HF_HUB_OFFLINE="1").commit == old


def test_offline(client, hub):
    lost = client.run(HF_HUB_OFFLINE="1")
    assert lost.status == 1 and "HF_HUB_OFFLINE" in lost.last_line and not hub.requests
    client.run()
    assert client.run(TRANSFORMERS_OFFLINE="yes").source == "cache"
    (client.run().folder / "model-00002-of-00003.safetensors").unlink()
    part = client.run(HF_HUB_OFFLINE="ON")
    assert part.status == 1 and "lacks model-00002-of-00003.safetensors" in part.last_line
    assert "HF_HUB_OFFLINE" in part.last_line


def test_a_damaged_snapshot_file_is_replaced(client, hub):
    folder = client.run().folder
    shard = folder / "model-00001-of-00003.safetensors"
    blob = shard.resolve()
    blob.write_bytes(blob.read_bytes()[:1000])
    assert client.run(NAME, "--refresh").status == 0
    assert check_published(client.cache, model_files()) == len(WANTED)


def test_a_folder_comes_first(client, tmp_path, hub):
    (tmp_path / "zai-org/GLM-tiny").mkdir(parents=True)
    done = client.run(str(tmp_path / "zai-org/GLM-tiny"))
    assert (done.source, done.commit) == ("folder", "-") and not hub.requests


@pytest.mark.parametrize("name", ["/no/such", "GLM", "a/b/c", "../up", "a--b/c", "-a/b", "a/b c", "a/..", "é/b", ""])
def test_names_that_are_no_models(client, hub, name):
    done = client.run(name)
    assert done.status == 1 and "ORG/NAME" in done.last_line and not hub.requests


def test_one_shard_without_index(client, hub):
    files = model_files()
    for name in [n for n in files if "model-" in n or "index" in n]:
        del files[name]
    hub.models["org/one"] = Model()
    hub.models["org/one"].commit(files)
    none = client.run("org/one")
    assert none.status == 1 and "neither model.safetensors.index.json nor model.safetensors" in none.last_line
    files["model.safetensors"] = File(b"x" * 1000, large=True)
    hub.models["org/one"].commit(files)
    done = client.run("org/one")
    assert done.status == 0 and (done.folder / "model.safetensors").stat().st_size == 1000
    assert client.run("org/one").source == "cache"


def test_a_listing_of_many_pages(client, hub):
    hub.page = 2
    assert client.run().status == 0
    assert check_published(client.cache, model_files()) == len(WANTED)


def test_equal_files_are_one_blob(client, hub):
    files = model_files()
    files["model-00003-of-00003.safetensors"] = files["model-00001-of-00003.safetensors"]
    hub.models[NAME].commit(files)
    assert client.run().status == 0
    assert check_published(client.cache, files) == len(WANTED)
