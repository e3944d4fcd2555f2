#!/usr/bin/env bash
# wheel.sh WHEEL: pip installs it into a new Python environment, and `glint` there does what it is for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LOGS=$folder
# shellcheck source=tests/package/program_checks.sh
. "$(dirname "$(readlink -f "$0")")/program_checks.sh"

/usr/bin/python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-index --disable-pip-version-check "$1"
# As in a shell where the environment is active: the program by its name.
RUN=(env -i -C / PATH="$folder/venv/bin:/usr/bin:/bin" HOME="$folder")
says_what_it_is glint
serve_and_ask glint
"$folder/venv/bin/pip" uninstall -q -y glint
test ! -e "$folder/venv/bin/glint" || fail "pip uninstall left the program behind"
say "the wheel: all done"
