#!/usr/bin/env python3
"""Writes the licences of every library that is compiled or linked into glint: notices.py BUILD_FOLDER OUT.

Which these are is read from the build itself: the headers that its objects include and the static libraries on its link
line. Each file's Debian package has its licence in /usr/share/doc/PACKAGE/copyright; a source archive in third_party/ of
the build folder has its own, and those of what it brings along.
"""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

# Not in the program: the C library is linked dynamically, and the kernel's headers are an interface.
OUTSIDE = {"libc6-dev", "linux-libc-dev", "libc-dev-bin", "libcrypt-dev", "libnsl-dev", "libtirpc-dev"}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objects_of_program(build: str) -> set[str]:
    inputs = output("ninja", "-C", build, "-t", "inputs", "apps/glint/glint").split()
    return {name for name in inputs if name.endswith(".o")}


def used_files(build: str) -> set[str]:
    """Absolute paths of what is not this repository's, and "third_party/ARCHIVE/..." of source archives."""
    objects = objects_of_program(build)
    files: set[str] = set()
    current = False
    for line in output("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            current = line.split(":")[0] in objects
        elif current:
            files.add(line.strip())
    link = output("ninja", "-C", build, "-t", "commands", "-s", "apps/glint/glint")
    files |= set(re.findall(r"(?<!\S)(/\S+\.a)\b", link))
    root = str(Path(__file__).resolve().parents[2]) + "/"
    archived = {match.group(0) for name in files if (match := re.search(r"\bthird_party/.+", name))}
    return archived | {name for name in files if name.startswith("/") and not name.startswith(root)}


def archive_texts(build: str, files: set[str]) -> dict[str, str]:
    """The licences of source archives by name: the archive's own, then those of what it carries along and is used."""
    texts: dict[str, str] = {}
    for archive in sorted({name.split("/")[1] for name in files}):
        used = {name.split("/", 2)[2] for name in files if name.startswith(f"third_party/{archive}/")}
        with tarfile.open(Path(build) / "third_party" / f"{archive}.tar.gz") as tar:
            held = set(tar.getnames())

            def read(name: str) -> str:
                return tar.extractfile(f"{archive}/{name}").read().decode(errors="replace")

            own = [read(name) for name in ("LICENSE", "NOTICE") if f"{archive}/{name}" in held]
            if not own:
                sys.exit(f"notices.py: {archive} has no LICENSE")
            texts[archive] = "\n".join(own)
            for part in sorted({name.split("/")[1] for name in used if name.startswith("3rdparty/")}):
                folder = f"3rdparty/{part}"
                if f"{archive}/{folder}/LICENSE" in held:
                    texts[f"{part} (in {archive})"] = read(f"{folder}/LICENSE")
                    continue
                # A library of one header has its terms at its top.
                header = min(name for name in used if name.startswith(folder))
                top = re.match(r"/\*.*?\*/", read(header), re.S)
                if not top or "Copyright" not in top.group(0):
                    sys.exit(f"notices.py: the licence of {folder} in {archive} is unknown")
                texts[f"{part} (in {archive})"] = re.sub(r"^[ /*]+", "", top.group(0), flags=re.M)
    return texts


def packages(files: set[str]) -> dict[str, set[str]]:
    """Debian packages with their files; what no package owns stands under ''."""
    names = sorted(files)
    found: dict[str, set[str]] = {"": set(names)}
    for begin in range(0, len(names), 500):
        done = subprocess.run(["dpkg-query", "-S", *names[begin:begin + 500]], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            owners, name = line.split(": ", 1)
            if name in found[""]:
                found[""].discard(name)
                found.setdefault(owners.split(",")[0].split(":")[0], set()).add(name)
    return found


def cuda_notice(files: set[str]) -> str:
    """The toolkit's own terms, where the toolkit is not a Debian package."""
    for root in {re.match(r"(/.*?/cuda[^/]*)/", name).group(1) for name in files if "/cuda" in name}:
        for name in ("EULA.txt", "LICENSE", "LICENSE.txt"):
            if (Path(root) / name).is_file():
                return (Path(root) / name).read_text(errors="replace")
    return "NVIDIA CUDA Runtime, under the terms of the NVIDIA CUDA Toolkit's End User License Agreement.\n"


def main() -> None:
    build, out = sys.argv[1:3]
    files = used_files(build)
    archived = {name for name in files if name.startswith("third_party/")}
    owned = packages(files - archived)
    strangers = owned.pop("")
    cuda = {name for name in strangers if "/cuda" in name}
    if strangers - cuda:
        sys.exit(f"notices.py: no Debian package owns {sorted(strangers - cuda)[:5]}: its licence is unknown")
    text = ["Glint is under the Apache License 2.0. These libraries are compiled or linked into it.\n"]
    texts: dict[str, list[str]] = {}
    for package in sorted(set(owned) - OUTSIDE):
        notice = Path("/usr/share/doc") / package / "copyright"
        if not notice.is_file():
            sys.exit(f"notices.py: {notice} is missing")
        version = output("dpkg-query", "-W", "-f=${Version}", package)
        texts.setdefault(notice.read_text(errors="replace"), []).append(f"{package} {version}")
    for name, notice in archive_texts(build, archived).items():
        texts.setdefault(notice, []).append(name)
    if cuda:
        texts.setdefault(cuda_notice(cuda), []).append("NVIDIA CUDA Runtime (static)")
    for notice, names in texts.items():
        text.append("=" * 100 + "\n" + "\n".join(names) + "\n" + "=" * 100 + "\n\n" + notice.rstrip() + "\n")
    Path(out).write_text("\n".join(text))
    print(f"{out}: {', '.join(sorted(name for names in texts.values() for name in names))}")


if __name__ == "__main__":
    main()
