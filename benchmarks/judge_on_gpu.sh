#!/bin/sh
# What the judge claims, measured on a GPU: about 20 minutes on an H200, all with one command.
#
#     [RESULTS=results] sh benchmarks/judge_on_gpu.sh [PYTHON [PART ...]]
#
# PART is exploits, each_way, throughput, judged_again, mutants, candidates, timer, replay or recovery; all, without one. Each has a limit in
# seconds and writes its page to RESULTS while it goes on, so that what is there is true when it ends early; the exit
# code says how many parts failed or ran out of time. The corpus comes first: it is what a verdict rests on.

python=${1:-python}
[ $# -gt 0 ] && shift
wanted=" ${*:-exploits each_way throughput judged_again mutants candidates timer replay recovery} "
failed=0

part() {  # seconds, name, arguments...
    limit=$1 name=$2
    shift 2
    case "$wanted" in *" $name "*) ;; *) return ;; esac
    echo "== $name, at most $limit s"
    timeout -k 5 "$limit" "$python" -u "benchmarks/$name.py" "$@" --out "$results/$name.md" || {
        echo "== $name: exit code $?"
        failed=$((failed + 1))
    }
}

cd "$(dirname "$0")/.." || exit 1
results=${RESULTS:-results}
mkdir -p "$results"
export KERNELBLASTER_CALL_LIMIT=3 # what hangs is to cost seconds
part 330 exploits --device cuda --seconds 310
part 150 each_way --device cuda
part 200 throughput --stages
part 270 judged_again --device cuda --seconds 250
part 240 mutants --device cuda --filter --most 6 --seconds 225
part 90 candidates
part 150 timer --seconds 130
part 60 replay
part 60 recovery
exit "$failed"
