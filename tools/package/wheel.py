#!/usr/bin/env python3
"""Makes a wheel that carries an installed Glint: wheel.py INSTALLED_PREFIX VERSION OUT_FOLDER. Prints the file's path.

Nothing in it is Python: `pip install` puts the program into bin/ and the small model into share/glint/models of the environment.
The platform tag is what the program itself demands of the C library; a program that needs more than it is refused.
"""

import base64
import hashlib
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
DATE = (2026, 1, 1, 0, 0, 0)  # the same bytes from the same input
SUMMARY = "Serves GLM-5.3 checkpoints behind the OpenAI API: one native program"


def platform_tag(program: Path) -> str:
    dynamic = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    if needed - C_LIBRARY:
        sys.exit(f"wheel.py: {program} needs {', '.join(sorted(needed - C_LIBRARY))}: a wheel may need the C library alone")
    versions = subprocess.run(["readelf", "--version-info", program], check=True, capture_output=True, text=True).stdout
    numbers = [tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([0-9]+\.[0-9]+)", versions)]
    machine = subprocess.run(["uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    return "manylinux_{}_{}_{}".format(*max(numbers), machine)


class Wheel:
    def __init__(self, path: Path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record: list[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, DATE)
        entry.external_attr = (stat.S_IFREG | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record_name: str) -> None:
        self.zip.writestr(zipfile.ZipInfo(record_name, DATE), "\n".join([*self.record, f"{record_name},,"]) + "\n")
        self.zip.close()


def main() -> None:
    prefix, version, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    program = prefix / "bin/glint"
    tag = f"py3-none-{platform_tag(program)}"
    info, data = f"glint-{version}.dist-info", f"glint-{version}.data"
    path = out / f"glint-{version}-{tag}.whl"
    wheel = Wheel(path)
    wheel.add(f"{data}/scripts/glint", program.read_bytes(), 0o755)
    for file in sorted((prefix / "share/glint").rglob("*")):
        if file.is_file():
            wheel.add(f"{data}/data/{file.relative_to(prefix)}", file.read_bytes())
    licences = sorted(file for file in (prefix / "share/doc/glint").glob("*") if file.name in ("copyright", "NOTICES"))
    for file in licences:
        wheel.add(f"{info}/licenses/{file.name}", file.read_bytes())
    metadata = ["Metadata-Version: 2.4", "Name: glint", f"Version: {version}", f"Summary: {SUMMARY}",
                "License-Expression: Apache-2.0", *(f"License-File: {file.name}" for file in licences)]
    wheel.add(f"{info}/METADATA", ("\n".join(metadata) + "\n").encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: glint\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close(f"{info}/RECORD")
    print(path)


if __name__ == "__main__":
    main()
