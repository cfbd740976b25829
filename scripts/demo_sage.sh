#!/usr/bin/env bash
# From a decision log to a promoted policy, with real commands on the bundled SYNTHETIC table; under two minutes on two cores.
# Usage: scripts/demo_sage.sh [FOLDER]   (default: runs/demo-sage-<time>); `make demo-sage` sets up .venv first.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -x "$root/.venv/bin/sage" ]; then
  echo "there is no .venv with sage: run \`make setup\` first" >&2
  exit 2
fi
folder=${1:-$root/runs/demo-sage-$(date +%Y%m%d-%H%M%S)}
export PATH="$root/.venv/bin:$PATH" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
unset SAGE_RL_POLICY SAGE_RL_CHECKPOINT SAGE_RL_FORCE
mkdir -p "$folder"
cd "$folder"

banner() {
  echo "########################################################################################"
  echo "#  SYNTHETIC DATA: nobody ran these models. This shows how the parts work together;    #"
  echo "#  no number below says anything about any real model.                                 #"
  echo "########################################################################################"
}
step() { printf '\n== %s\n' "$1"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}
field() { python -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

banner

step "1. init: the table by hand (models.yaml), which is also what every doubt falls back to"
run sage init
table=$(python -c 'import sage; from pathlib import Path; print(Path(sage.__file__).parent / "assets" / "synthetic.npz")')

step "2. log: one decision as your program makes it, with the probability of every model, and its outcome"
decision=$(sage route --role coder --task "fix the flaky test in tests/test_io.py" --category tests --data-source synthetic --json)
echo "$decision" | python -c 'import json, sys; d = json.load(sys.stdin); print("  chose", d["model"], "by", dict(zip(d["candidates"], (round(p, 3) for p in d["probabilities"]))), "-", d["reason"])'
run sage outcome "$(echo "$decision" | field id)" --quality 1 --cost 0.03 --latency 11

step "3. log: 20,000 decisions of the same table over the bundled synthetic outcomes, 30 % of them explore"
run sage rl replay --outcomes "$table" --policy epsilon:0.3 --rows 20000

step "4. export: decisions with outcomes as one file, and what drives their reward"
run sage rl export --output datasets/routing_v1.jsonl
run sage rl analyze-rewards --data datasets/routing_v1.jsonl --out datasets/reward_report.json

step "5. train: a careful table and a network, from 60 % of the tasks; the others are kept to judge them"
run sage rl train-dr --data datasets/routing_v1.jsonl --out memory/rl/policy_dr.safetensors
run sage rl train-cql --data datasets/routing_v1.jsonl --out memory/rl/policy_cql.safetensors

step "6. prove: what the table would gain over the static one, on tasks that it has not seen"
run sage rl eval-offline --data datasets/routing_v1.jsonl --checkpoint memory/rl/policy_dr.safetensors --out datasets/offline_eval_dr.json

step "7. gate: without --allow-synthetic it refuses such rows, whatever they say (exit code 3)"
code=0
run sage rl gate --data datasets/routing_v1.jsonl --checkpoint memory/rl/policy_dr.safetensors --against static || code=$?
test "$code" = 3

step "8. gate: asked to judge them all the same, by an interval for a single look, it labels its verdict; the network is at the edge of being sure enough"
run sage rl gate --data datasets/routing_v1.jsonl --checkpoint memory/rl/policy_dr.safetensors --against static --interval fixed-n --allow-synthetic --out datasets/gate_dr.json
code=0
run sage rl gate --data datasets/routing_v1.jsonl --checkpoint memory/rl/policy_cql.safetensors --against static --interval fixed-n --allow-synthetic --out datasets/gate_cql.json || code=$?
test "$code" = 0 || test "$code" = 3  # its log has an id drawn at random, so runs differ

step "9. serve: two environment variables switch a promoted policy on; a verdict on synthetic rows promotes nothing, so the table answers"
run env SAGE_RL_POLICY=1 SAGE_RL_CHECKPOINT=memory/rl/policy_dr.safetensors \
  sage route --role coder --task "align the buttons of the form" --category frontend --data-source synthetic
echo "   with SAGE_RL_FORCE=1 it serves all the same, and every decision says so:"
run env SAGE_RL_POLICY=1 SAGE_RL_CHECKPOINT=memory/rl/policy_dr.safetensors SAGE_RL_FORCE=1 \
  sage route --role coder --task "align the buttons of the form" --category frontend --data-source synthetic

step "10. bench: the policy where every outcome is known (unseen tasks only), as a run pack that can be recomputed; all baselines"
run sage bench --compare-policy --checkpoint memory/rl/policy_dr.safetensors --run-pack-dir memory/benchmarks/run_pack_compare
run sage bench verify memory/benchmarks/run_pack_compare
run sage bench --out bench.json

step "11. report: cost, quality and savings as one page, labelled synthetic"
run sage report --out report.html --evaluation datasets/offline_eval_dr.json

echo
banner
echo "Everything is in $folder (open report.html)."
