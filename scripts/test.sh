#!/usr/bin/env bash
# Checks format and lint and runs every test, as CI does: those of the library from
# another folder against the installed package, the others here. Arguments go to pytest,
# and then it is pytest alone that runs, here:
#
#   scripts/test.sh                       everything
#   scripts/test.sh -k telescope          the tests with this name
#   scripts/test.sh -m "not slow"         without the slow ones
#
# Two workers, a file of tests each at a time, so that what a file compiles stays shared;
# -n 0 for one process (with --pdb, say).
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare_environment
cd "$ROOT"

run_tests() {
  "$PYTHON" -m pytest -n 2 --dist loadfile "$@"
}

if [[ $# -gt 0 ]]; then
  run_tests "$@"
  exit
fi

"$PYTHON" -m ruff format --check .
"$PYTHON" -m ruff check .

# Tests of the library alone: they import neither experiments nor scripts.
mapfile -t library < <(
  grep -rLE '^(from|import) (experiments|scripts|fake_runs)\b|parents\[' tests \
    --include='test_*.py' | sort
)

elsewhere="$(mktemp -d)"
trap 'rm -rf "$elsewhere"' EXIT
"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
  --no-build-isolation --target "$elsewhere/installed" "$ROOT"
cp -r tests pyproject.toml "$elsewhere"
(
  cd "$elsewhere"
  export PYTHONPATH="$elsewhere/installed"
  "$PYTHON" - <<'PYTHON_CODE'
import pathlib

import agentic_grpo

home = pathlib.Path(agentic_grpo.__file__).parents[1]
assert home == pathlib.Path.cwd() / "installed", f"{home} would be tested instead"
PYTHON_CODE
  run_tests "${library[@]}"
)
run_tests "${library[@]/#/--ignore=}"
