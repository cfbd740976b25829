#!/usr/bin/env bash
# Every claim about sage, computed again: scripts/verify_local.sh [DATA] [FOLDER]
#   DATA    folder of the published outcome packs; without it, claims that need them are checked on the committed results
#   FOLDER  for the results (default: runs/verify-sage-<time>)
#   CLIENTS words for benchmarks/sage/serve_clients.py, such as "--aider VENV/bin/python"; agents on the PATH are found
# Without DATA about a quarter of an hour, with it hours (cascades alone: 20 minutes of processor time). Fails at the first part that
# does not work, or at the end if a claim does not hold: thresholds and files are those of scripts/sage_claims.py
# (docs/verification_matrix.md).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -x "$root/.venv/bin/sage" ]; then
  echo "there is no .venv with sage: run \`make setup\` first" >&2
  exit 2
fi
data=${1:+$(cd "$1" && pwd)}
folder=${2:-$root/runs/verify-sage-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$folder/demo"
folder=$(cd "$folder" && pwd)
cd "$root"
export OMP_NUM_THREADS=1 PATH="$root/.venv/bin:$PATH"
processors=$(python -c "import os; print(os.cpu_count())")
step() { printf '\n== %s (after %d s)\n' "$1" "$SECONDS"; }
skipped() { printf 'skipped: %s\n' "$1"; }

step "source: lint, types, and the tests of sage (they need no data from outside)"
ruff check src/sage tests/sage benchmarks/sage scripts
ruff format --check -q src/sage tests/sage benchmarks/sage scripts
pyrefly check src/sage
python -m pytest tests/sage
python -m pytest tests/test_docs.py -k "link and (sage or verification or checklist)"

step "pages: tables equal the results files"
python benchmarks/sage/render_docs.py --check
cp docs/verification_matrix.md "$folder/matrix.md"
python scripts/check_claims.py --write
cmp docs/verification_matrix.md "$folder/matrix.md"

step "demo: log, train, prove, promote, serve, roll back, report on synthetic data"
started=$(date +%s)
scripts/demo_sage.sh "$folder/demo/run" > "$folder/demo/output.txt"
echo "{\"seconds\": $(($(date +%s) - started))}" > "$folder/demo/seconds.json"
cp "$folder/demo/run/policy_dr.safetensors.proof.json" "$folder/demo/proof.json"
for name in sage.db rows.jsonl policy_dr.safetensors frontier.svg report.html; do
  test -s "$folder/demo/run/$name"
done
grep -q "Synthetic data." "$folder/demo/run/report.html"
judge() { # judges the demo's policy on the demo's rows
  (cd "$folder/demo/run" && sage prove policy_dr.safetensors --data rows.jsonl "$@")
}
code=0
judge --out refused.json || code=$?
echo "{\"exit_code\": $code}" > "$folder/demo/refused.json"

step "proof: the same rows, checkpoint and seed give the same proof, but for its date"
judge --allow-synthetic --out first.json > /dev/null
judge --allow-synthetic --out second.json > /dev/null
diff <(grep -v '"date":' "$folder/demo/run/first.json") <(grep -v '"date":' "$folder/demo/run/second.json")

step "run pack: recomputed; and a changed one is found out"
sage bench verify "$folder/demo/run/pack"
cp -r "$folder/demo/run/pack" "$folder/demo/changed"
sed -i 's/"floor": 0.9/"floor": 0.8/' "$folder/demo/changed/results.json"
if sage bench verify "$folder/demo/changed"; then
  echo "a changed run pack was confirmed"
  exit 1
fi

step "log = belief: every kind of decision, made again from the log"
python benchmarks/sage/believed_propensities.py --out "$folder/believed_propensities.json"

step "log and overhead: measured on this machine"
python benchmarks/sage/log_throughput.py --out "$folder/log_throughput.json"
python benchmarks/sage/decision_overhead.py --out "$folder/decision_overhead.json" || true # judged below
python benchmarks/sage/tenant_budgets.py --out "$folder/tenant_budgets.json"

step "soak: three minutes of failing upstreams and killed workers, and of a full disk where that can be had"
if [ -r /proc/self/statm ]; then
  python benchmarks/sage/serve_soak.py --minutes 3 --rate 60 --out "$folder/serve_soak.json"
  if grep -q '"disk_was_full_s": 0.0' "$folder/serve_soak.json"; then skipped "the full disk, which root alone can mount"; fi
  step "soak: two minutes of honest tenants beside a hostile one and a hostile upstream"
  python benchmarks/sage/hostile_soak.py --seconds 120 --phases 4 --out "$folder/hostile_soak.json" ||
    echo "the hostile soak misses a limit: benchmarks/sage/tried.md says which one was missed before"
else
  skipped "this system has no /proc, in which the soak finds the workers"
fi

step "conformance: suites of others, where they are on the PATH"
if comply=$(command -v llm-comply) && check=$(command -v trustedrouter-provider-check); then
  python benchmarks/sage/serve_conformance.py --comply "$comply" --provider-check "$check" --out "$folder/serve_conformance.json"
else
  skipped "llm-comply and trustedrouter-provider-check are not on the PATH; the committed result is checked"
fi

step "clients: agents on the PATH, and those that CLIENTS names, each with a turn that must finish"
clients=()
for agent in codex:codex claude-code:claude opencode:opencode qwen-code:qwen kilo-code:kilo cline:cline; do
  if program=$(command -v "${agent#*:}"); then clients+=("--${agent%:*}" "$program"); else skipped "${agent#*:} is not on the PATH"; fi
done
# shellcheck disable=SC2206
clients+=(${CLIENTS:-})
if [ "${#clients[@]}" -gt 0 ]; then # fewer than the committed board has, so the claim about their number is not checked on it
  python benchmarks/sage/serve_clients.py "${clients[@]}" --out "$folder/clients_of_this_machine.json"
fi

step "image: built and tried, where a container engine answers and has the base image"
code=0
scripts/build_image.sh sage-serve-verify || code=$?
if [ "$code" -eq 2 ]; then
  skipped "without an engine and a base image there is no image to try"
elif [ "$code" -ne 0 ]; then
  exit "$code"
fi

if [ -n "$data" ]; then
  for name in cascades gate looks ablations learn_from_log online_bandits routing sim_models missing_outcomes \
    objectives power plan confidence; do
    case $name in
      gate | learn_from_log | online_bandits | routing | sim_models) out=$folder/$name.json ;;
      *) out=$folder/$name ;;
    esac
    step "$name: on the outcome packs of $data"
    python "benchmarks/sage/$name.py" --data "$data" --out "$out" || true # judged below
    test -s "$out"
  done
  for name in deleted_rows served_fall sampled_outcomes planned_looks cheapest_within_margin cascade_budgets; do
    step "$name: on the outcome packs of $data, with all processors"
    python "benchmarks/sage/$name.py" --data "$data" --processes "$processors" --out "$folder/$name" || true # judged below
    test -s "$folder/$name"
  done
else
  step "no folder of outcome packs given: claims about real outcomes are checked on the committed results"
fi

step "claims"
python scripts/check_claims.py --results "$folder"
