"""The commands of the published documents, as words."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from conftest import SOURCE


@dataclass
class Command:
    where: str
    environment: dict[str, str]
    words: list[str]  # for glint


def commands_of(path: Path) -> list[Command]:
    """Continued lines are joined, also where the line breaks are lost ("\\ --flag")."""
    text = re.sub(r"\\\s+", " ", path.read_text())
    found = []
    for line in text.splitlines():
        if "vllm serve" not in line and "launch_server" not in line:
            continue
        words = shlex.split(line)
        environment = {}
        while re.fullmatch(r"\w+=\S*", words[0]):
            name, value = words.pop(0).split("=", 1)
            environment[name] = value
        if words[:2] == ["vllm", "serve"]:
            words = words[1:]
        else:
            assert words[:3] == ["python3", "-m", "sglang.launch_server"], line
            words = ["launch_server", *words[3:]]
        found.append(Command(f"{path.stem}-{len(found) + 1}", environment, words))
    return found


COMMANDS = [command for name in ("recipe", "card") for command in commands_of(SOURCE / f"tests/data/commands/{name}.txt")]
