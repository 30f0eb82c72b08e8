#!/bin/sh
# What the judge claims, measured on a GPU: about 20 minutes on an H200, all with one command.
#
#     sh benchmarks/judge_on_gpu.sh [PYTHON]
#
# Each part has a limit in seconds and writes its page to results/; the exit code says how many parts failed or ran
# out of time. The corpus comes first: it is what a verdict rests on.

python=${1:-python}
failed=0

part() {  # seconds, name, arguments...
    limit=$1 name=$2
    shift 2
    echo "== $name"
    timeout "$limit" "$python" "benchmarks/$name.py" "$@" --out "results/$name.md" || {
        echo "== $name: exit code $?"
        failed=$((failed + 1))
    }
}

cd "$(dirname "$0")/.." || exit 1
part 420 exploits --device cuda
part 240 mutants --device cuda --filter --most 6
part 90 candidates
part 150 timer
part 60 replay
part 180 throughput
KERNELBLASTER_CALL_LIMIT=3 part 60 recovery
exit "$failed"
