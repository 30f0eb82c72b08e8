#!/bin/sh
# What a public suite's problems show on a GPU. Each step by itself takes a few minutes; a bench that is stopped goes on.
#
#     benchmarks/real_suites.sh FACTS.jsonl FOLDER [rounding|exports|suite|all]
#
# FACTS.jsonl: operators and shapes of the problems (benchmarks/rebuild.py). FOLDER keeps tasks, the bench and the tables.
# SECONDS_EACH (540): after so long the bench begins nothing new; run the same command again to go on.
set -eu
facts=$1 folder=$2 step=${3:-all}
mkdir -p "$folder"

if [ "$step" = rounding ] || [ "$step" = all ]; then
    python benchmarks/tf32_convolutions.py --device cuda --out "$folder/tf32-convolutions.md" || true
    python benchmarks/rounded_operands.py core --device cuda --out "$folder/rounded-operands.md" || true
fi
if [ "$step" = exports ] || [ "$step" = all ]; then
    python benchmarks/exported.py --out "$folder/exported.md" || true
fi
if [ "$step" = suite ] || [ "$step" = all ]; then
    [ -d "$folder/tasks" ] || python benchmarks/rebuild.py "$facts" "$folder/tasks"
    kernelblaster bench "$folder/tasks" --budget 7 --rollouts 1 --choices 4 --baselines eager,compile \
        --workers 12 --seconds "${SECONDS_EACH:-540}" --folder "$folder/bench" || true
    kernelblaster report "$folder/bench" --out "$folder/report.html" --also markdown,csv
fi
