#!/usr/bin/env bash
# Checks format, lint and types and runs the tests, but for the slow ones. Arguments go
# to pytest, and then it is pytest alone that runs:
#
#   scripts/test.sh                       what every change has to pass
#   scripts/test.sh -k telescope          the tests with this name
#   scripts/test.sh -m slow               the slow ones
#
# Two workers, a file of tests each at a time, so that what a file compiles stays shared;
# -n 0 for one process (with --pdb, say).
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare_environment
cd "$ROOT"

if [[ $# -eq 0 ]]; then
  "$PYTHON" -m ruff format --check .
  "$PYTHON" -m ruff check .
  "$PYTHON" -m mypy
  set -- -m "not slow"
fi
exec "$PYTHON" -m pytest -n 2 --dist loadfile "$@"
