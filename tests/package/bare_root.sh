#!/usr/bin/env bash
# A hook of mmdebstrap: bare_root.sh ROOT DEB TGZ. In a root that has nothing but Debian's essential packages the archive,
# unpacked anywhere, must do what the program is for: say what it is, plan and serve the small model, answer a question,
# and refuse a GPU that is not there in one line. Then the .deb, installed by apt with what it depends on, must do the same.
set -euo pipefail
root=$1 deb=$2 tgz=$3
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
RUN=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
LOGS=$root/tmp
# shellcheck source=tests/package/program_checks.sh
. "$(dirname "$(readlink -f "$0")")/program_checks.sh"

# try PREFIX
try() {
  says_what_it_is "$1/bin/glint"
  serve_and_ask "$1/bin/glint"
  refuses_a_gpu "$1/bin/glint"
  for file in share/man/man1/glint-serve.1 share/bash-completion/completions/glint lib/systemd/system/glint.service \
    share/doc/glint/{NOTICES,copyright,docs/install.md}; do
    test -s "$root$1/$file" || fail "$1/$file is missing"
  done
}

# shellcheck disable=SC2016  # dpkg-query's own variables
packages() { inside dpkg-query -f '${Package}\n' -W | sort; }

mkdir "$root/opt/glint"
tar -xzf "$tgz" -C "$root/opt/glint" --strip-components=1
try "/opt/glint$(cd "$root/opt/glint" && find . -path '*/bin/glint' -printf '/%P' | sed 's|/bin/glint$||')"
rm -rf "$root/opt/glint"

before=$(packages)
cp "$deb" "$root/tmp/glint.deb"
# The root's own apt: mmdebstrap's settings of apt would install into the machine outside.
inside apt-get install -qq -y --no-install-recommends /tmp/glint.deb >"$LOGS/apt.log" 2>&1 ||
  { cat "$LOGS/apt.log" >&2; fail "apt-get install"; }
say "apt-get installed: $(comm -13 <(printf '%s\n' "$before") <(packages) | xargs)"
# shellcheck disable=SC2016
say "$(inside dpkg-query -W -f '${Package} ${Version} ${Architecture}, depends on ${Depends}, recommends ${Recommends}' glint)"
inside dpkg --verify glint
try /usr
inside dpkg -r glint >&2
for file in bin/glint share/glint lib/systemd/system/glint.service; do
  test ! -e "$root/usr/$file" || fail "/usr/$file was left behind"
done
say "the .deb and the archive: all done"
