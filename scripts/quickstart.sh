#!/usr/bin/env bash
# Trains a small agent on the CPU and draws its learning curve.
#
#   scripts/quickstart.sh [--workdir=DIR] [--config.any.field=value ...]
#
# DIR is runs/quickstart of the repository unless given. The same command again continues
# a run that was interrupted, and only draws one that is complete.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

workdir="$ROOT/runs/quickstart"
flags=(--config="$ROOT/experiments/configs/quickstart.py")
read_run_arguments "$@"

prepare_environment
cd "$ROOT"
"$PYTHON" -m experiments.train "${flags[@]}" --workdir="$workdir"
"$PYTHON" scripts/plot_runs.py "$workdir" --output="$workdir/learning_curve.png"

cat <<MESSAGE

The run is in    $workdir
Learning curve   $workdir/learning_curve.png
Metrics          $workdir/metrics.jsonl

To try next, in the folder $ROOT
  another seed     scripts/quickstart.sh --workdir=runs/seed1 --config.seed=1
  draw them both   $(printf '%q' "$PYTHON") scripts/plot_runs.py \\
                     quickstart=$(printf '%q' "$workdir"),runs/seed1 --output=runs/both.png
  run the tests    scripts/test.sh
MESSAGE
