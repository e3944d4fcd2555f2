#!/usr/bin/env bash
# A hook of mmdebstrap: bare_root.sh ROOT DEB TGZ. Installs the package in a root that has nothing but Debian's essential
# packages, asks the program what it is, plans and serves the small model, and asks the server one thing. Then the archive,
# unpacked anywhere, must do the same.
set -euo pipefail
root=$1 deb=$2 tgz=$3
port=$((20000 + RANDOM % 10000))

say() { printf 'package-test: %s\n' "$*" >&2; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

serve_and_ask() {
  local glint=$1 model=$2 server answer
  inside "$glint" serve "$model" --served-model-name nano --host 127.0.0.1 --port $port >"$root/tmp/serve.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    curl -sf "http://127.0.0.1:$port/health" >/dev/null && break
    kill -0 $server || { cat "$root/tmp/serve.log"; exit 1; }
    sleep 0.1
  done
  answer=$(curl -sf "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d '{"model": "nano",
    "temperature": 0, "messages": [{"role": "user", "content": "What is 345 + 278?"}]}')
  kill -TERM $server
  wait $server || { cat "$root/tmp/serve.log"; exit 1; }
  say "$answer"
  grep -q 623 <<<"$answer"
}

# try PREFIX
try() {
  local glint=$1/bin/glint model=$1/share/glint/models/nano
  say "$glint"
  inside "$glint" --version
  inside "$glint" plan "$model" | tail -n 3
  serve_and_ask "$glint" "$model"
}

cp "$deb" "$root/tmp/glint.deb"
inside dpkg -i /tmp/glint.deb
try /usr
test -s "$root/usr/share/doc/glint/NOTICES"
test -s "$root/usr/share/doc/glint/copyright"
inside dpkg --verify glint
inside dpkg -r glint
test ! -e "$root/usr/share/glint"

mkdir "$root/opt/glint"
tar -xzf "$tgz" -C "$root/opt/glint" --strip-components=1
try "/opt/glint/$(cd "$root/opt/glint" && find . -path '*/bin/glint' -printf '%P' | sed 's|/*bin/glint$||')"
say "all done"
