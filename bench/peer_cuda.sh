#!/bin/sh
# mlxcel beside llama.cpp, on an NVIDIA GPU: the table of docs/benchmarks.md.
#
#   LLAMA_BENCH=path/to/llama-bench bench/peer_cuda.sh FOLDER [MODEL[=TEST,...] ...]
#
# FOLDER  keeps what is made for it: GGUF files with random weights, and shapes with all layers
# MODEL   a shape of bench/shapes (default: all of the table)
# TEST    tg      GENERATE tokens (128), one sequence
#         depth   64 tokens after DEPTH (8192)
#         batch   BATCH sequences (64) at once, 64 tokens each
#         pp      a prompt of PROMPT tokens (4096)
#         (default: all)
# MLXCEL  the program (build/mlxcel)          RUNS  of each test, the median is told (3)
# PYTHON  to make GGUF files (python3)
# BATCHED llama-batched-bench (the one beside LLAMA_BENCH)
#
# Without LLAMA_BENCH ours alone is timed; so are shapes that bench/make_gguf.py can't make.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: LLAMA_BENCH=path/to/llama-bench bench/peer_cuda.sh FOLDER [MODEL[=TEST,...] ...]}
shift
bench=${LLAMA_BENCH:-}
batched=${BATCHED:-${bench:+$(dirname "$bench")/llama-batched-bench}}
mlxcel=${MLXCEL:-$here/../build/mlxcel}
runs=${RUNS:-3}
prompt=${PROMPT:-4096}
generate=${GENERATE:-128}
depth=${DEPTH:-8192}
batch=${BATCH:-64}
mkdir -p "$folder"
[ $# -gt 0 ] || set -- llama-8b-q4 llama-8b-bf16 qwen3-30b-a3b-q4 deepseek-v3-q4=tg,batch,pp \
    qwen3-next-80b-q4=tg,batch,pp

# Sets checkpoint and gguf (empty: none) of a shape. Those of bench/shapes are for small machines
# too; here Qwen3-30B-A3B gets all of its layers, and 4 bits are in groups of 64, as most are
# published, which are as many bits a weight as Q4_0's.
prepare() {
    checkpoint=$here/shapes/$1
    gguf=
    case $1 in
    llama-8b-q4 | qwen3-30b-a3b-q4)
        checkpoint=$folder/$1
        mkdir -p "$checkpoint"
        sed 's/"num_hidden_layers": 16/"num_hidden_layers": 48/; s/"group_size": 32/"group_size": 64/' \
            "$here/shapes/$1/config.json" >"$checkpoint/config.json"
        ;;
    esac
    case $1 in
    llama-* | qwen3-30b-a3b-*) [ -z "$bench" ] || gguf=$folder/$1.gguf ;;
    esac
    type=${1##*-}
    [ "$type" = q4 ] && type=q4_0
    if [ -n "$gguf" ] && [ ! -f "$gguf" ]; then
        "${PYTHON:-python3}" "$here/make_gguf.py" "$checkpoint" "$type" "$gguf.part"
        mv "$gguf.part" "$gguf"
    fi
}

# "TEST speed of_limit" of each result: prompts and generation of one sequence share a process, as
# making or loading a model takes longer than timing it.
ours_run() {
    "$mlxcel" bench -q -m "$checkpoint" --load-format dummy --device cuda -r "$runs" --json "$@" |
        tr '{' '\n' | sed -n 's/^"kind":"\([a-z]*\)","tokens":[0-9]*,"depth":\([0-9]*\),"sequences":\([0-9]*\),"tokens_per_second":\([^,]*\),.*"of_limit":\([^,}]*\).*/\1 \2 \3 \4 \5/p' |
        awk '{ print ($1 == "prompt" ? "pp" : $3 > 1 ? "batch" : $2 > 0 ? "depth" : "tg"), $4, $5 }'
}

theirs_run() {
    "$bench" -m "$gguf" -ngl 99 -fa 1 -r "$runs" -o json "$@" 2>"$folder/llama-bench.log" | awk -F '[:,]' '
    /"n_prompt"/ { prompt = $2 }
    /"n_depth"/ { depth = $2 }
    /"avg_ts"/ { print (prompt > 0 ? "pp" : depth > 0 ? "depth" : "tg"), $2 + 0 }'
}

theirs_batched() {
    "$batched" -m "$gguf" -ngl 99 -fa on -c $((batch * 96)) -npp 8 -ntg 64 -npl "$batch" \
        2>"$folder/llama-batched-bench.log" |
        awk -F '|' '$4 ~ /^ *[0-9]+ *$/ { print "batch", $9 + 0 }'
}

has() {
    case ,$tests, in *,$1,*) return 0 ;; esac
    return 1
}

ours() {
    p=0 n=0
    ! has pp || p=$prompt
    ! has tg || n=$generate
    [ $((p + n)) = 0 ] || ours_run -p "$p" -n "$n"
    ! has depth || ours_run -p 0 -n 64 -d "$depth"
    ! has batch || ours_run -p 0 -n 64 -b "$batch"
}

theirs() {
    [ $((p + n)) = 0 ] || theirs_run -p "$p" -n "$n"
    ! has depth || theirs_run -p 0 -n 64 -d "$depth"
    ! has batch || theirs_batched
}

# One row a test, of the lines in the files "ours" and "theirs".
rows() {
    awk -v model="$1" -v tests="$2" -v there="$gguf" -v ours="$folder/ours" '
    {
        if (FILENAME == ours) { mine[$1] = $2; limit[$1] = $3 } else peer[$1] = $2
    }
    END {
        count = split(tests, test, ",")
        for (i = 1; i <= count; i++) {
            t = test[i]
            if (!(mine[t] > 0)) { print model " " t ": failed"; failed = 1; continue }
            printf "%-18s %-10s %10.1f %6.1f %%", model, t, mine[t], 100 * limit[t]
            if (peer[t] > 0) printf " %10.1f %6.2f", peer[t], mine[t] / peer[t]
            else if (there) { printf " %10s", "failed"; failed = 1 }
            print ""
        }
        exit failed
    }' "$folder/ours" "$folder/theirs"
}

"$mlxcel" --version | head -1
printf '%-18s %-10s %10s %8s %10s %6s\n' model test mlxcel 'of limit' llama.cpp ratio
failed=0
for each; do
    model=${each%%=*}
    tests=tg,depth,batch,pp
    [ "$model" = "$each" ] || tests=${each#*=}
    for test in $(echo "$tests" | tr , ' '); do
        case $test in
        tg | depth | batch | pp) ;;
        *) echo "peer_cuda.sh: no test $test (tg, depth, batch, pp)" >&2 && exit 2 ;;
        esac
    done
    prepare "$model"
    ours >"$folder/ours"
    if [ -n "$gguf" ]; then theirs; fi >"$folder/theirs"
    rows "$model" "$tests" || failed=1
done
exit $failed
