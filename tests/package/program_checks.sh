# shellcheck shell=bash
# What every package's program must do; sourced. RUN is the command that runs a program in its place (a chroot, an empty
# environment), LOGS a folder for what it says.
port=$((20000 + RANDOM % 10000))

say() { printf 'package-test: %s\n' "$*" >&2; }
fail() { say "FAILED: $*"; exit 1; }

# serve_and_ask GLINT: the small model by its name, one sum.
serve_and_ask() {
  local server answer
  "${RUN[@]}" "$1" serve nano --host 127.0.0.1 --port $port >"$LOGS/serve.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    curl -sf "http://127.0.0.1:$port/health" >/dev/null && break
    kill -0 $server 2>/dev/null || { cat "$LOGS/serve.log" >&2; fail "$1 serve nano ended"; }
    sleep 0.1
  done
  answer=$(curl -sf "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d '{"model": "nano",
    "temperature": 0, "messages": [{"role": "user", "content": "What is 345 + 278?"}]}') || fail "no answer"
  # chroot and env have become the program, so the signal is its own.
  kill -TERM $server
  wait $server || { cat "$LOGS/serve.log" >&2; fail "$1 did not end well"; }
  grep -q 623 <<<"$answer" || fail "a wrong answer: $answer"
  say "$1 serve nano: 345 + 278 = 623"
}

# says_what_it_is GLINT: version, plan and manual page.
says_what_it_is() {
  say "$1: $("${RUN[@]}" "$1" --version)"
  "${RUN[@]}" "$1" plan nano >"$LOGS/plan.txt"
  say "$(tail -n 1 "$LOGS/plan.txt")"
  "${RUN[@]}" "$1" help --man >"$LOGS/man.txt"
  head -n 1 "$LOGS/man.txt" | grep -q '^\.TH' || fail "no manual page"
}

# refuses_a_gpu GLINT, where there is no driver: one line that names the flag, exit status 2.
refuses_a_gpu() {
  local status=0
  "${RUN[@]}" "$1" serve nano --device cuda >"$LOGS/cuda.log" 2>&1 || status=$?
  [ $status = 2 ] || fail "--device cuda ended with status $status: $(cat "$LOGS/cuda.log")"
  [ "$(wc -l <"$LOGS/cuda.log")" = 1 ] || fail "--device cuda: not one line: $(cat "$LOGS/cuda.log")"
  grep -q 'argument --device: ' "$LOGS/cuda.log" || fail "--device cuda: $(cat "$LOGS/cuda.log")"
  say "$(cat "$LOGS/cuda.log")"
}
