#!/bin/sh
# mlxcel beside llama.cpp, on the CPU: the same weights, one machine, one run.
#
#   LLAMA_BENCH=path/to/llama-bench bench/peer_cpu.sh FOLDER [MODEL[=TEST,...] ...]
#
# FOLDER keeps what is made for it: GGUF files with random weights, and the import of SMOLLM2.
# MODEL   smollm2   SmolLM2-135M-Instruct, from the GGUF file SMOLLM2, as `mlxcel import` makes it
#         SHAPE:TYPE, as llama-1b:q4 or llama-1b:bf16: random weights in a shape of bench/shapes
#         (default: all of the table in docs/benchmarks.md, which takes about an hour on two cores)
# TEST    pp      a prompt of PROMPT tokens (512)
#         tg      GENERATE tokens (64), one sequence
#         depth   DEPTH_GENERATE tokens (16) after DEPTH (8192, or what the model was made for)
#         batch   BATCH sequences (8) at once, of GENERATE tokens each, and what that is of one
#         (default: TESTS, else pp,tg,depth,batch)
# MLXCEL  the program (build/mlxcel)         THREADS  of both (all of nproc)
# ROUNDS  of ours, theirs, ours, ... (3)     JSON     a file that gets a line a row
# PYTHON  one with gguf and numpy, to make GGUF files (python3)
# BATCHED llama-batched-bench, for batch (the one beside LLAMA_BENCH)
# FLASH   1: llama.cpp with its flash attention (0, which was the faster on each CPU tried)
#
# The ratio is the median of the rounds' ratios: what slows the machine for a while slows both. A
# model that memory can't hold is left out, with a message.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: LLAMA_BENCH=path/to/llama-bench bench/peer_cpu.sh FOLDER [MODEL[=TEST,...] ...]}
shift
: "${LLAMA_BENCH:?is not set: the path of the llama-bench of llama.cpp}"
batched=${BATCHED:-$(dirname "$LLAMA_BENCH")/llama-batched-bench}
mlxcel=${MLXCEL:-$here/../build/mlxcel}
threads=${THREADS:-$(nproc)}
rounds=${ROUNDS:-3}
prompt=${PROMPT:-512}
generate=${GENERATE:-64}
depth=${DEPTH:-8192}
depth_generate=${DEPTH_GENERATE:-16}
batch=${BATCH:-8}
tests=${TESTS:-pp,tg,depth,batch}
flash=${FLASH:-0}
json=${JSON:-/dev/null}
mkdir -p "$folder"
[ $# -gt 0 ] || set -- ${SMOLLM2:+smollm2} llama-1b:q4 llama-1b:bf16 llama-8b:q4=pp,tg \
    llama-8b:bf16=pp,tg qwen3-30b-a3b:q4=pp,tg

say() { echo "peer_cpu.sh: $*" >&2; }

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
        if [ ! -f "$checkpoint/config.json" ]; then
            say "no shape $checkpoint"
            exit 2
        fi
        if [ ! -f "$gguf" ]; then
            "${PYTHON:-python3}" "$here/make_gguf.py" "$checkpoint" "$type" "$gguf.part"
            mv "$gguf.part" "$gguf"
        fi
        ;;
    *)
        say "no model $1 (smollm2, or SHAPE:TYPE of bench/shapes)"
        exit 2
        ;;
    esac
}

# llama.cpp maps the file, and repacks 4-bit weights into memory of its own, in place of the pages;
# our random weights are memory. So each needs about the file's size, and 1.5 GiB for the rest.
fits() {
    need=$(($(wc -c <"$gguf") / 1048576 + 1536))
    have=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null)
    [ -z "$have" ] || [ "$need" -le "$have" ]
}

# DEPTH, but no more than what the model was made for, with what is generated
model_depth() {
    most=$(sed -n 's/.*"max_position_embeddings": *\([0-9]*\).*/\1/p' "$checkpoint/config.json")
    if [ $((depth + depth_generate)) -gt "${most:-0}" ]; then
        echo $((most - depth_generate))
    else
        echo "$depth"
    fi
}

# "speed part-of-the-limit" of each result, a line each
ours() {
    "$mlxcel" bench -q -m "$checkpoint" --load-format $format -r 1 -t "$threads" --json "$@" |
        sed 's/[{}]/\n/g' |
        sed -n 's/.*"tokens_per_second":\([^,]*\),.*"of_limit":\(.*\)/\1 \2/p'
}

# Speed. Without flash attention, unless FLASH=1: on CPUs it was the slower of its two ways.
theirs() {
    "$LLAMA_BENCH" -m "$gguf" -r 1 -t "$threads" -fa "$flash" -o json "$@" 2>/dev/null |
        awk -F '[:,]' '/"avg_ts"/ { print $2 + 0 }'
}

# Speeds of one and of BATCH sequences
theirs_batched() {
    "$batched" -m "$gguf" -t "$threads" -tb "$threads" -fa "$flash" -c $((batch * (generate + 16))) \
        -npp 8 -ntg "$generate" -npl "1,$batch" 2>/dev/null |
        awk -F '|' '$4 ~ /^ *[0-9]+ *$/ { print $9 + 0 }'
}

# One round of a test: "ours part theirs", and for batch "ours part theirs ours-of-one theirs-of-one"
round_of() {
    case $1 in
    pp) echo "$(ours -p "$prompt" -n 0) $(theirs -p "$prompt" -n 0)" ;;
    tg) echo "$(ours -p 0 -n "$generate") $(theirs -p 0 -n "$generate")" ;;
    depth) echo "$(ours -p 0 -n "$depth_generate" -d "$(model_depth)")" \
        "$(theirs -p 0 -n "$depth_generate" -d "$(model_depth)")" ;;
    batch)
        {
            ours -p 0 -n "$generate" -b "1,$batch"
            theirs_batched
        } | awk '{ v[NR] = $1; part[NR] = $2 } END { print v[2], part[2], v[4], v[1], v[3] }'
        ;;
    esac
}

name_of() {
    case $1 in
    pp) echo "pp$prompt" ;;
    tg) echo "tg$generate" ;;
    depth) echo "tg$depth_generate@$(model_depth)" ;;
    batch) echo "tg${generate}x$batch" ;;
    *) say "no test $1 (pp, tg, depth, batch)" && exit 2 ;;
    esac
}

# A row of the table, and its line of JSON, from a line for each round
row() {
    awk -v model="$1" -v test="$2" -v json="$json" '
    function sorted(v, n,   i, k, t) {
        for (i = 2; i <= n; i++)
            for (k = i; k > 1 && v[k - 1] > v[k]; k--) { t = v[k]; v[k] = v[k - 1]; v[k - 1] = t }
    }
    function median(v, n) { sorted(v, n); return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 }
    function list(v, n,   i, s) {
        for (i = 1; i <= n; i++) s = s (i > 1 ? "," : "") v[i]
        return "[" s "]"
    }
    NF != 3 && NF != 5 || $1 * $3 <= 0 {
        print "peer_cpu.sh: " model " " test ": a run failed" > "/dev/stderr"
        bad = 1
        exit 1
    }
    {
        a[NR] = $1; part[NR] = $2; b[NR] = $3; r[NR] = $1 / $3
        if (NF == 5) { many = 1; x[NR] = $1 / $4; y[NR] = $3 / $5 }
    }
    END {
        if (bad) exit 1
        raw = "\"mlxcel\":" list(a, NR) ",\"llama_cpp\":" list(b, NR)
        m = median(r, NR)
        p = median(part, NR)
        printf "%-18s %-12s %10.2f %10.2f %8.2f   %.2f to %.2f %8.1f %%", model, test,
            median(a, NR), median(b, NR), m, r[1], r[NR], 100 * p
        extra = ""
        if (many) {
            printf "   of one: %.2f, %.2f", median(x, NR), median(y, NR)
            extra = ",\"of_one\":[" median(x, NR) "," median(y, NR) "]"
        }
        print ""
        printf "{\"model\":\"%s\",\"test\":\"%s\",%s,\"ratio\":%.4f,\"of_limit\":%.4f%s}\n", model,
            test, raw, m, p, extra >> json
    }'
}

grep -m 1 'model name' /proc/cpuinfo 2>/dev/null | sed 's/.*: //'
"$mlxcel" --version | sed -n 's/^kernels *//p'
echo "$threads threads, $rounds rounds, tok/s"
printf '%-18s %-12s %10s %10s %8s   %-12s %10s\n' model test mlxcel llama.cpp ratio rounds \
    'of limit'
failed=0
for each; do
    model=${each%%=*}
    chosen=$tests
    [ "$model" = "$each" ] || chosen=${each#*=}
    prepare "$model"
    if ! fits; then
        say "$model: left out: needs $need MiB of memory, and $have are available"
        continue
    fi
    for test in $(echo "$chosen" | tr , ' '); do
        name=$(name_of "$test")
        round=0
        while [ $round -lt "$rounds" ]; do
            round=$((round + 1))
            round_of "$test"
        done | row "$model" "$name" || failed=1
    done
done
exit $failed
