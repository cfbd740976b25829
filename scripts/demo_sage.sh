#!/usr/bin/env bash
# From a decision log to a promoted policy and back, with real commands on the bundled SYNTHETIC table; under a minute on two cores.
# Usage: scripts/demo_sage.sh [FOLDER]   (default: runs/demo-sage-<time>); `make demo-sage` sets up .venv first.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -x "$root/.venv/bin/sage" ]; then
  echo "there is no .venv with sage: run \`make setup\` first" >&2
  exit 2
fi
folder=${1:-$root/runs/demo-sage-$(date +%Y%m%d-%H%M%S)}
export PATH="$root/.venv/bin:$PATH" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" SAGE_MODELS_DIR="$folder/models" PYTHONPATH="$root/scripts"
unset SAGE_RL_POLICY SAGE_RL_CHECKPOINT SAGE_RL_FORCE
mkdir -p "$folder"
cd "$folder"

banner() {
  echo "########################################################################################"
  echo "#  SYNTHETIC DATA: nobody ran these models. This shows how the parts work together;    #"
  echo "#  no number below says anything about any real model.                                 #"
  echo "########################################################################################"
}
exec 3>&1 # commands are shown where their output is not
step() { printf '\n== %s\n' "$1"; }
run() {
  printf '$ %s\n' "$(printf '%s\n' "$@" | sed 's/.* .*/"&"/' | paste -sd ' ')" >&3
  "$@"
}
quietly() { run "$@" > output.txt; }
refused() { # a command that must end with exit code 3
  local code=0
  run "$@" || code=$?
  test "$code" = 3
}

banner

step "1. init: your table (models.yaml), which decides until a policy is proved, and whenever one is in doubt"
run sage init

step "2. log: every choice with the probability of every model, and what came of it"
routed=$(run sage log route --role coder --task "fix the flaky test" --category tests --data-source synthetic)
echo "$routed"
run sage log outcome "$(awk '/^  decision/ {print $2}' <<< "$routed")" --quality 1 --cost-usd 0.03 --latency-s 11
cp "$(python -c 'import sage; from pathlib import Path; print(Path(sage.__file__).parent / "assets" / "synthetic.npz")')" outcomes.npz
run sage lab replay --outcomes outcomes.npz --policy epsilon:0.3 --rows 12000

step "3. train: a policy, from 60 % of the tasks; the others are kept to judge it"
run sage train

step "4. prove: what it gains over your table, on tasks that it has not seen; synthetic rows are refused (exit code 3) ..."
refused sage prove policy_dr.safetensors
echo "... unless you ask for them, and then every answer says so"
run sage prove policy_dr.safetensors --allow-synthetic

step "5. promote: the policy serves, beside the log; running servers follow"
run sage promote policy_dr.safetensors --allow-synthetic
run sage status

step "6. serve: a proxy for coding agents; a small real model of this machine answers"
echo '$ sage serve &'
sage serve --port 0 > serve.log 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
for _ in $(seq 300); do
  if grep -q "^sage serves" serve.log || ! kill -0 "$server" 2> /dev/null; then break; fi
  sleep 0.1
done
cat serve.log
url=$(grep -o 'http://[0-9.:]*' serve.log | head -1)
run python -m demo_request "$url" "Write a Python function that adds two numbers."

step "7. rollback: the table decides again at once, in the running server too"
run sage rollback
run sage status
run python -m demo_request "$url" "Write a Python function that adds two numbers."
kill "$server"
wait "$server" || true

step "8. look: the log as rows, the curve of quality over cost, and one page about everything"
run sage log export --out rows.jsonl --data-source synthetic
quietly sage lab frontier --data rows.jsonl --out frontier.svg
run sage bench --compare-policy --checkpoint policy_dr.safetensors --run-pack-dir pack
run sage bench verify pack
run sage report --data-source synthetic --proof policy_dr.safetensors.proof.json

echo
banner
echo "Everything is in $folder (open report.html)."
