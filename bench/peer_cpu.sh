#!/bin/sh
# mlxcel beside llama.cpp, on the CPU: the same weights, one machine, one run.
#
#   LLAMA_BENCH=path/to/llama-bench bench/peer_cpu.sh FOLDER [MODEL ...]
#
# FOLDER keeps what is made for it: GGUF files with random weights, and the import of SMOLLM2.
# MODEL   smollm2   SmolLM2-135M-Instruct, from the GGUF file SMOLLM2, as `mlxcel import` makes it
#         SHAPE:TYPE, as llama-1b:q4 or llama-1b:bf16: random weights in a shape of bench/shapes
#         (default: smollm2 if SMOLLM2 is set, llama-1b:q4 llama-1b:bf16)
# MLXCEL  the program (build/mlxcel)         THREADS  of both (all of nproc)
# ROUNDS  of ours, theirs, ours, ... (3)     PROMPT, GENERATE  tokens to time (512, 128)
# PYTHON  one with gguf and numpy, to make GGUF files (python3)
#
# The ratio is the median of the rounds' ratios: what slows the machine for a while slows both.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: LLAMA_BENCH=path/to/llama-bench bench/peer_cpu.sh FOLDER [MODEL ...]}
shift
: "${LLAMA_BENCH:?is not set: the path of the llama-bench of llama.cpp}"
mlxcel=${MLXCEL:-$here/../build/mlxcel}
threads=${THREADS:-$(nproc)}
rounds=${ROUNDS:-3}
prompt=${PROMPT:-512}
generate=${GENERATE:-128}
mkdir -p "$folder"
[ $# -gt 0 ] || set -- ${SMOLLM2:+smollm2} llama-1b:q4 llama-1b:bf16

# Sets checkpoint, format and gguf for a model; makes what is missing.
prepare() {
    case $1 in
    smollm2)
        gguf=${SMOLLM2:?is not set: the path of SmolLM2-135M-Instruct as a GGUF file}
        checkpoint=$folder/smollm2
        format=auto
        [ -f "$checkpoint/config.json" ] || "$mlxcel" import "$gguf" "$checkpoint" >&2
        ;;
    *:*)
        checkpoint=$here/shapes/$(echo "$1" | tr : -)
        format=dummy
        gguf=$folder/$(echo "$1" | tr : -).gguf
        type=${1#*:}
        [ "$type" = q4 ] && type=q4_0
        if [ ! -f "$gguf" ]; then
            "${PYTHON:-python3}" "$here/make_gguf.py" "$checkpoint" "$type" "$gguf.part"
            mv "$gguf.part" "$gguf"
        fi
        ;;
    *)
        echo "peer_cpu.sh: no model $1 (smollm2, or SHAPE:TYPE of bench/shapes)" >&2
        exit 2
        ;;
    esac
}

# "prefill decode" of one round of ours, then what part of the limit each is
ours() {
    "$mlxcel" bench -q -m "$checkpoint" --load-format $format -p "$prompt" -n "$generate" -r 1 \
        -t "$threads" --json | sed 's/[{}]/\n/g' |
        sed -n 's/.*"tokens_per_second":\([^,]*\),.*"of_limit":\(.*\)/\1 \2/p' |
        awk '{ speed[NR] = $1; part[NR] = $2 } END { print speed[1], speed[2], part[1], part[2] }'
}

# "prefill decode"
theirs() {
    "$LLAMA_BENCH" -m "$gguf" -p "$prompt" -n "$generate" -r 1 -t "$threads" -o json 2>/dev/null |
        awk -F '[:,]' '/"avg_ts"/ { speed[++n] = $2 } END { print speed[1], speed[2] }'
}

# Rows of the table from a line of both for each round
table() {
    awk -v model="$1" -v prompt="$prompt" -v generate="$generate" '
    function sorted(v, n,   i, k, t) {
        for (i = 2; i <= n; i++)
            for (k = i; k > 1 && v[k - 1] > v[k]; k--) { t = v[k]; v[k] = v[k - 1]; v[k - 1] = t }
    }
    function median(v, n) { sorted(v, n); return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 }
    function row(test, a, b, l,   i, r) {
        for (i = 1; i <= NR; i++) r[i] = a[i] / b[i]
        m = median(r, NR)
        printf "%-16s %-8s %10.2f %10.2f %8.2f   %.2f to %.2f %14.1f %%\n", model, test,
            median(a, NR), median(b, NR), m, r[1], r[NR], 100 * median(l, NR)
    }
    NF != 6 { print "peer_cpu.sh: " model ": a run failed" > "/dev/stderr"; bad = 1; exit 1 }
    { a[NR] = $1; c[NR] = $2; la[NR] = $3; lc[NR] = $4; b[NR] = $5; d[NR] = $6 }
    END { if (!bad) { row("pp" prompt, a, b, la); row("tg" generate, c, d, lc) } }'
}

grep -m 1 'model name' /proc/cpuinfo 2>/dev/null | sed 's/.*: //'
"$mlxcel" --version | sed -n 's/^kernels *//p'
echo "$threads threads, $rounds rounds, tok/s"
printf '%-16s %-8s %10s %10s %8s   %-12s %14s\n' model test mlxcel llama.cpp ratio rounds \
    'of our limit'
for model; do
    prepare "$model"
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "$(ours) $(theirs)"
    done | table "$model"
done
