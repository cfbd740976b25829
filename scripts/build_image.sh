#!/usr/bin/env bash
# Builds the image of `sage serve` and tries it: scripts/build_image.sh [TAG]   (default: sage-serve)
#   ENGINE  docker or podman (default: the first that answers)
#   BASE    another base image than that of the Dockerfile
#   BUILD_OPTIONS, RUN_OPTIONS  further words for `ENGINE build` and `ENGINE run`
# Tried: it does not start without a key; with one it serves as another user than root on a read-only root, is healthy, asks for
# the key, and its log is in the volume. Ends with 2 if no engine answers, or if the base image cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=${1:-sage-serve}
if [ -z "${ENGINE:-}" ]; then
  for engine in docker podman; do
    if timeout 30 "$engine" info > /dev/null 2>&1; then
      ENGINE=$engine
      break
    fi
  done
fi
if [ -z "${ENGINE:-}" ]; then
  echo "neither docker nor podman answers: install one of them, or start its daemon" >&2
  exit 2
fi

base=${BASE:-$(sed -n 's/^ARG BASE=//p' Dockerfile)}
if ! "$ENGINE" image inspect "$base" > /dev/null 2>&1 && ! timeout 300 "$ENGINE" pull -q "$base" > /dev/null; then
  echo "the base image $base is not here and cannot be pulled: name another one in BASE" >&2
  exit 2
fi

# shellcheck disable=SC2086
"$ENGINE" build ${BASE:+--build-arg "BASE=$BASE"} ${BUILD_OPTIONS:-} -t "$tag" .

folder=$(mktemp -d)
name=sage-serve-try-$$
cleanup() {
  "$ENGINE" rm -f "$name" > /dev/null 2>&1 || true
  "$ENGINE" volume rm -f "$name" > /dev/null 2>&1 || true
  rm -rf "$folder"
}
trap cleanup EXIT
cat > "$folder/models.yaml" <<'YAML'
models:
  small: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: {url: "http://127.0.0.1:9/v1"}}
roles:
  default: {primary: small, fallback: small}
YAML
chmod 755 "$folder"
"$ENGINE" volume create "$name" > /dev/null
# shellcheck disable=SC2206
given=(--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges
  -v "$name:/data" -v "$folder/models.yaml:/etc/sage/models.yaml:ro" ${RUN_OPTIONS:-})

echo "== without a key it refuses"
if "$ENGINE" run --rm "${given[@]}" "$tag" > "$folder/refused.txt" 2>&1; then
  echo "it served all addresses without a key" >&2
  exit 1
fi
grep "holds no valid key" "$folder/refused.txt"

echo "== with a key it serves"
key=$("$ENGINE" run --rm "${given[@]}" "$tag" keys add try --keys /data/sage-keys.json --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["key"])')
"$ENGINE" run -d --name "$name" "${given[@]}" "$tag" > /dev/null
inside() { "$ENGINE" exec "$name" /opt/sage/bin/python -c "$1"; }
asked='import sys, urllib.request, urllib.error
def status(path, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8484" + path, headers=headers), timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
'
for _ in $(seq 60); do
  if inside "$asked
sys.exit(status('/healthz') != 200)" 2> /dev/null; then break; fi
  sleep 0.5
done
inside "$asked
import os
found = status('/healthz'), status('/v1/models'), status('/v1/models', authorization='Bearer $key'), os.getuid(), os.path.exists('/data/sage.db')
print('health, without key, with key, user, log:', *found)
sys.exit(found != (200, 401, 200, 10001, True))"
"$ENGINE" stop "$name" > /dev/null
echo "$tag is built and serves"
