"""What `pip download` asks a source archive's build backend for: name and version.

With this folder on PYTHONPATH and --no-build-isolation nothing but the archive of the pinned hash is fetched, and nothing
inside it runs. cmake/Xgrammar.cmake is the only user.
"""

import pathlib
import re


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    information = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    name, version = (re.search(rf"^{key}: (.+)$", information, re.MULTILINE)[1] for key in ("Name", "Version"))
    folder = pathlib.Path(metadata_directory) / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return folder.name
