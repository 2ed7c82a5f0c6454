#!/bin/sh
# mlxcel-server beside llama-server under load, on the CPU: the same weights, one machine, one run.
#
#   LLAMA_SERVER=path/to/llama-server SMOLLM2=file.gguf bench/peer_server.sh FOLDER [OPTION ...]
#
# SMOLLM2 is imported into FOLDER once (mlxcel import). OPTIONs are those of bench_server; the second
# server is llama-server.
# BUILD   where the programs are (build)       THREADS  of both (all of nproc)
# PLACES  answers at once, of both (64)        CONTEXT  tokens of each of them (1024)
# FLASH   llama-server's flash attention (off)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: LLAMA_SERVER=... SMOLLM2=file.gguf bench/peer_server.sh FOLDER [OPTION ...]}
shift
: "${LLAMA_SERVER:?is not set: the path of the llama-server of llama.cpp}"
: "${SMOLLM2:?is not set: a GGUF file of SmolLM2}"
build=${BUILD:-$here/../build}
threads=${THREADS:-$(nproc)}
places=${PLACES:-64}
context=$((${CONTEXT:-1024} * places))
ours=18080
theirs=18081
mkdir -p "$folder"
[ -d "$folder/smollm2" ] || "$build/mlxcel" import "$SMOLLM2" "$folder/smollm2"

"$build/mlxcel-server" -m "$folder/smollm2" --port $ours -np "$places" -c "$context" -t "$threads" \
    -q > "$folder/ours.log" 2>&1 &
first=$!
"$LLAMA_SERVER" -m "$SMOLLM2" --port $theirs -np "$places" -c "$context" -t "$threads" \
    -tb "$threads" -fa "${FLASH:-off}" --no-webui > "$folder/theirs.log" 2>&1 &
second=$!
trap 'kill $first $second 2> /dev/null; wait' EXIT INT TERM

for port in $ours $theirs; do
    until curl -sf "http://127.0.0.1:$port/health" > "$folder/health"; do
        kill -0 $first 2> /dev/null && kill -0 $second 2> /dev/null || {
            echo "peer_server.sh: a server ended; see $folder/ours.log and theirs.log" >&2
            exit 1
        }
        sleep 0.2
    done
done
"$build/bench_server" "$@" "http://127.0.0.1:$ours" "http://127.0.0.1:$theirs"
