#!/usr/bin/env bash
# Reproduces the ablations: runs every suite, writes its tables and figures.
#
#   scripts/reproduce_ablations.sh [--quick] [--dry-run] [--parallel=N] [SUITE ...]
#   nohup scripts/reproduce_ablations.sh >ablations.log 2>&1 &
#
# Without suites: credit, which tunes the arms, and then all others (see
# experiments/configs/ablations); first it prints runs x seconds. Runs go to
# runs/ablations/SUITE, results to experiments/results/SUITE. The same command again, or
# after an interruption, does only what is left; to interrupt, kill it (SIGTERM).
#
#   --quick       the two headline regimes with two seeds, within 15 minutes: this gives
#                 signs without significance; it says whether they are those of the
#                 headline claims, and fails if not
#   --dry-run     only print runs x seconds
#   --parallel=N  runs side by side; as many as there are processors unless given
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"

parallel="" quick="" dry_run="" suites=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
      exit
      ;;
    --quick) quick=yes ;;
    --dry-run) dry_run=yes ;;
    --parallel=?*) parallel="${argument#*=}" ;;
    -*)
      echo "$argument is no option; see --help" >&2
      exit 2
      ;;
    *) suites+=("$argument") ;;
  esac
done
if [[ -n "$quick" ]]; then
  if [[ ${#suites[@]} -gt 0 ]]; then
    echo "--quick is a suite of its own; leave out ${suites[*]}" >&2
    exit 2
  fi
  suites=(quick)
elif [[ ${#suites[@]} -eq 0 ]]; then
  suites=(
    credit critic larger tool_workflow map prior divisor phase_weights staleness anchor baseline
    group_size stages contest
  )
fi

prepare_environment
cd "$ROOT"
if [[ -z "$parallel" ]]; then
  parallel="$("$PYTHON" -c 'from agentic_grpo.training import host
print(host.cpu_threads())')"
fi

# A child in the background, so that a signal to this script is passed on at once.
child=""
run() {
  "$@" &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=""
  return "$status"
}
stop() {
  trap '' INT TERM
  if [[ -n "$child" ]]; then
    echo "stopping: what is running is saved first" >&2
    kill -TERM "$child" 2>/dev/null || true
    wait "$child" || true
  fi
  exit 130
}
trap stop INT TERM

all="$(IFS=,; echo "${suites[*]}")"
run "$PYTHON" -m experiments.ablate --suite="$all" --parallel="$parallel" --dry_run
[[ -z "$dry_run" ]] || exit 0
flags=() plot_flags=()
if [[ -n "$quick" ]]; then
  echo "Quick: two seeds give signs without significance, and that is all they give."
  flags=(--untuned)
  plot_flags=(--require_claims)
fi

failed=()
for suite in "${suites[@]}"; do
  status=0
  run "$PYTHON" -m experiments.ablate --suite="$suite" --parallel="$parallel" \
    ${flags[@]+"${flags[@]}"} || status=$?
  if [[ "$status" -eq 130 ]]; then
    exit "$status"
  fi
  [[ "$status" -eq 0 ]] || failed+=("$suite")
  if [[ -f "runs/ablations/$suite/suite.json" ]]; then
    run "$PYTHON" scripts/plot_runs.py --suite="runs/ablations/$suite" \
      --output="experiments/results/$suite" ${plot_flags[@]+"${plot_flags[@]}"} \
      || failed+=("$suite")
  fi
  if [[ "$suite" == contest ]]; then
    run "$PYTHON" -m experiments.rank_suite --suite="runs/ablations/$suite" \
      --output="experiments/results/$suite" || failed+=("$suite")
  fi
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "Not complete, or not as claimed: ${failed[*]}. The same command does what is" \
    "left." >&2
  exit 1
fi
echo "Results: experiments/results/{$all}/table.md"
