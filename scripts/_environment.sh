# shellcheck shell=bash
#
# Sourced by the other scripts. Sets ROOT, the repository; and prepare_environment sets
# PYTHON, an interpreter with everything installed: that of ROOT/.venv, made where it is
# missing and renewed when setup.py or requirements.txt have changed.
#
# AGENTIC_GRPO_PYTHON=/path/to/python uses that interpreter as it is, installing nothing
# (for a JAX with GPU or TPU support that you have set up yourself).

# Large arrays on huge pages: a gradient takes 15 to 20% less CPU time. glibc reads it
# when a program starts; other systems do not know it.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Of a script that trains in one folder: --workdir replaces $workdir, which becomes an
# absolute path; --help prints the head of the script; all else is added to $flags.
read_run_arguments() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      -h | --help)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[1]}"
        exit
        ;;
      --workdir=?*) workdir="${1#*=}" ;;
      --workdir)
        if [[ -z "${2:-}" ]]; then
          echo "--workdir needs a folder: --workdir=DIR" >&2
          exit 2
        fi
        workdir="$2"
        shift
        ;;
      *) flags+=("$1") ;;
    esac
    shift
  done
  if [[ "$workdir" != /* ]]; then
    workdir="$PWD/$workdir"
  fi
}

prepare_environment() {
  if [[ -n "${AGENTIC_GRPO_PYTHON:-}" ]]; then
    PYTHON="$AGENTIC_GRPO_PYTHON"
    export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"
    return
  fi
  PYTHON="$ROOT/.venv/bin/python"
  _is_current && return
  exec 9<"$ROOT" # two scripts started together install one after the other
  if command -v flock >/dev/null && ! flock -n 9; then
    echo "Another script is setting up $ROOT/.venv; waiting for it." >&2
    flock 9
  fi
  _is_current || _install
  exec 9<&-
}

_install() {
  if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then
    _make_venv
  fi
  local arguments=(
    --quiet --disable-pip-version-check
    -e "${ROOT}[test,plots,tensorboard,llm,docs]"
  )
  if [[ "$(_version)" == 3.11.* ]]; then
    arguments+=(-c "$ROOT/requirements.txt")
  else
    echo "Python $(_version): requirements.txt was tested with 3.11, so the newest" \
      "versions that setup.py allows are installed instead." >&2
  fi
  echo "Installing into $ROOT/.venv; this takes a minute, once." >&2
  if ! "$PYTHON" -m pip install "${arguments[@]}"; then
    echo "Installing failed; the lines above say why. Without a network, use an" \
      "interpreter that has the packages: AGENTIC_GRPO_PYTHON=/path/to/python $0" >&2
    exit 1
  fi
  _fingerprint >"$ROOT/.venv/agentic_grpo.installed"
}

_make_venv() {
  local python
  python="$(_find_python)"
  echo "Making $ROOT/.venv with $python." >&2
  rm -rf "$ROOT/.venv"
  if ! "$python" -m venv "$ROOT/.venv"; then
    rm -rf "$ROOT/.venv"
    echo "$python cannot make a virtual environment. On Debian and Ubuntu its module" \
      "venv is a package of its own: apt install python3-venv" >&2
    exit 1
  fi
}

# The tested 3.11 first. Each is run: a name on the path may be a shim of nothing.
_find_python() {
  local name
  for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
      >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
  echo "agentic_grpo needs Python 3.11 or newer, and none was found on the path." >&2
  return 1
}

_version() {
  "$PYTHON" -c 'import platform; print(platform.python_version())'
}

_is_current() {
  [[ -x "$PYTHON" && -f "$ROOT/.venv/agentic_grpo.installed" ]] &&
    [[ "$(_fingerprint 2>/dev/null)" == "$(<"$ROOT/.venv/agentic_grpo.installed")" ]]
}

# What the installed packages follow from, the place of the repository included.
_fingerprint() {
  "$PYTHON" - "$ROOT" <<'PYTHON_CODE'
import hashlib, pathlib, platform, sys

root = pathlib.Path(sys.argv[1])
content = b"".join(
    (root / name).read_bytes() for name in ("setup.py", "requirements.txt")
)
print(platform.python_version(), hashlib.sha256(content).hexdigest(), root)
PYTHON_CODE
}
