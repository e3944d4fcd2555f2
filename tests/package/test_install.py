"""What the packages hold, cheaply: the installed tree and the wheel. `./dev package-test` tries the packages in a bare root."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", os.environ["GLINT_BUILD"], "--prefix", folder, "--strip")
    return folder


@pytest.fixture(scope="session")
def wheel(prefix, tmp_path_factory) -> Path:
    version = run(prefix / "bin/glint", "--version").split()[1]
    return Path(run(sys.executable, ROOT / "tools/package/wheel.py", prefix, version, tmp_path_factory.mktemp("wheel")).strip())


def test_the_program_needs_the_c_library_alone(prefix):
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\.so", run("readelf", "-d", prefix / "bin/glint")))
    assert needed <= {"libc", "libm", "ld-linux-x86-64"}, needed


def test_the_installed_program_starts_with_an_empty_environment(prefix, tmp_path):
    assert re.fullmatch(r"glint \d+\.\d+\.\d+\n", run(prefix / "bin/glint", "--version", env={}, cwd=tmp_path))
    assert "tokens" in run(prefix / "bin/glint", "plan", prefix / "share/glint/models/nano", env={}, cwd=tmp_path)


@pytest.fixture(scope="session")
def packed(tmp_path_factory) -> Path:
    """The folder with the .deb and the archive, quickly compressed."""
    folder = tmp_path_factory.mktemp("packed")
    notices = folder / "NOTICES"
    run(sys.executable, ROOT / "tools/package/notices.py", os.environ["GLINT_BUILD"], notices)
    # CPack reads its settings, then runs the install script of the build.
    run("cpack", "--config", Path(os.environ["GLINT_BUILD"]) / "CPackConfig.cmake", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
    return folder


def test_the_deb_depends_on_the_c_library_alone(packed):
    [deb] = packed.glob("*.deb")
    field = lambda name: run("dpkg-deb", "-f", deb, name).strip()
    assert field("Package") == "glint" and deb.name == f"glint_{field('Version')}_{field('Architecture')}.deb"
    assert re.fullmatch(r"libc6 \(>= 2\.\d+\)", field("Depends")), field("Depends")
    assert field("Recommends") == "ca-certificates"
    names = run("dpkg-deb", "-c", deb)
    for name in ("bin/glint", "share/glint/models/nano/config.json", "lib/systemd/system/glint.service", "share/man/man1/glint-serve.1",
                 "share/bash-completion/completions/glint", "share/doc/glint/copyright"):
        assert re.search(rf" root/root +\d+ .* \./usr/{re.escape(name)}$", names, re.M), name
    assert "./usr/lib/systemd" in names and "./work" not in names and "third_party" not in names


def test_the_archive_holds_what_the_deb_holds(packed):
    [deb], [archive] = packed.glob("*.deb"), packed.glob("*.tar.gz")
    of_deb = {line.split()[-1].removeprefix("./usr/") for line in run("dpkg-deb", "-c", deb).splitlines() if not line.endswith("/")}
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if member.isfile()]
        assert {member.name.split("/", 1)[1].removeprefix("usr/") for member in members} == of_deb
        [program] = [member for member in members if member.name.endswith("/bin/glint")]
        assert program.mode & 0o777 == 0o755


def test_the_notices_name_every_library_that_is_compiled_in(packed):
    notices = (packed / "NOTICES").read_text()
    for name in ("libboost1.81-dev ", "libssl-dev ", "nlohmann-json3-dev ", "libpcre2-dev ", "libyaml-cpp-dev ", "libxxhash-dev "):
        assert f"\n{name}" in notices, name
    cache = (Path(os.environ["GLINT_BUILD"]) / "CMakeCache.txt").read_text()
    if "GLINT_XGRAMMAR:BOOL=ON" in cache:
        assert re.search(r"^xgrammar-[\d.]+$", notices, re.M) and re.search(r"^picojson \(in xgrammar", notices, re.M)
        assert "Cybozu" in notices, "picojson's terms"
    if "GLINT_CUDA:BOOL=ON" in cache:
        assert "NVIDIA CUDA Runtime" in notices


def test_the_documents_are_there(prefix):
    for name in ("copyright", "README.md", "docs/models.md", "docs/install.md"):
        assert list(prefix.glob(f"share/doc/glint/{name}")), name


def test_the_unit_is_one_that_systemd_takes(prefix, tmp_path):
    unit = (prefix / "lib/systemd/system/glint.service").read_text()
    assert "ExecStart=/usr/bin/glint serve $GLINT_ARGS" in unit
    try:
        subprocess.run(["systemd-analyze", "--version"], capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("systemd-analyze is not here")
    moved = tmp_path / "glint.service"
    moved.write_text(unit.replace("/usr/bin/glint", str(prefix / "bin/glint")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", moved], text=True, capture_output=True, timeout=60)
    assert not [line for line in done.stderr.splitlines() if "glint.service" in line], done.stderr


def test_the_wheel(wheel, prefix, tmp_path):
    assert re.fullmatch(r"glint-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert any(name.endswith(".dist-info/licenses/copyright") for name in archive.namelist())
    run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", "--prefix", tmp_path, wheel)
    assert run(tmp_path / "bin/glint", "--version", env={}) == run(prefix / "bin/glint", "--version")
    assert (tmp_path / "share/glint/models/nano/config.json").read_bytes() == (ROOT / "models/nano/config.json").read_bytes()


def test_a_wheel_of_a_program_that_needs_more_is_refused(prefix, tmp_path):
    other = tmp_path / "installed/bin"
    other.mkdir(parents=True)
    (other / "glint").write_bytes(Path("/usr/bin/openssl").read_bytes())
    done = subprocess.run([sys.executable, ROOT / "tools/package/wheel.py", other.parent, "1", tmp_path], text=True, capture_output=True)
    assert done.returncode == 1 and "a wheel may need the C library alone" in done.stderr
