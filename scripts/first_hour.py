"""The first hour: every command of the pages, typed in a shell that has nothing.

  python scripts/first_hour.py [--tiny]

A copy of the repository, an empty home (no compile cache, no packages, nothing to
activate) and a Python on the path are all there is. Prints each command, its seconds
and its exit code, and exits with 1 if one of them failed. With --tiny every run has the
sizes of the smoke test: minutes in place of an hour.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from experiments.config import fields  # noqa: E402
from experiments.configs import quickstart, smoke  # noqa: E402

#: What somebody has who has cloned the repository, as far as the commands need it.
CLONED = ("agentic_grpo", "docs", "experiments", "scripts", "tests")
FILES = ("LICENSE", "README.md", "pyproject.toml", "requirements.txt", "setup.py")

#: Pages whose commands are typed, in the order in which they are read.
READ = ("README.md", "docs/contests.md", "docs/clusters.md")

#: Pages whose blocks of Python are to be saved, and what is then typed.
BRING_YOUR_OWN = ("agentic_grpo/envs/README.md", "agentic_grpo/models/README.md")
TYPED = (
    "pip install --quiet pytest",
    "python -m pytest -q test_my_environment.py test_my_policy.py",
    "python train_mine.py agentic",
)

#: Printed by the shell behind every command.
_MARK = "first-hour-mark"


@dataclasses.dataclass(frozen=True)
class Step:
    """One command: what was typed, how long it took, its exit code."""

    command: str
    seconds: float
    code: int

    def __str__(self):
        return f"{self.seconds:7.1f} s  exit {self.code:<3d}  {self.command}"


def blocks(language: str, page: str) -> list[str]:
    """The blocks of a language in the text of a page."""
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The commands of a block, a list of words each."""
    lines = text.replace("\\\n", " ").split("\n")
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def saved_files(page: str) -> dict[str, str]:
    """{file name: code} of what a page says to save; "": the first without a name."""
    found, before = {}, 0
    for match in re.finditer(r"```python\n(.*?)```", page, re.S):
        names = re.findall(
            r"[Ss]ave\s+(?:it|this)\s+as\s+`(\w+\.py)`", page[before : match.start()]
        )
        found.setdefault(names[-1] if names else "", match.group(1))
        before = match.end()
    return found


def told(root: pathlib.Path) -> list[list[str]]:
    """The commands of the pages, in the order in which they are read."""
    texts = [(root / name).read_text(encoding="utf-8") for name in READ]
    of_pages = [block for text in texts for block in blocks("sh", text)]
    return [words for block in of_pages for words in commands(block)]


def smallest() -> list[str]:
    """The flags that make a quickstart a smoke test."""
    wanted = dict(fields.flatten(smoke.get_config()))
    given = dict(fields.flatten(quickstart.get_config()))
    return [
        f"--config.{name}={value}"
        for name, value in wanted.items()
        if value != given[name]
    ]


def shrunk(words: list[str]) -> list[str]:
    """The same command, with less to do."""
    if words[0] == "scripts/test.sh":
        return [*words, "--version"]  # the tests take their time elsewhere
    name = words[2] if words[1:2] == ["-m"] else words[0]
    typed = {word.split("=")[0] for word in words}
    less = [flag for flag in smallest() if flag.split("=")[0] not in typed]
    if name in ("experiments.train", "scripts/quickstart.sh"):
        return [*words, *less]
    if name == "experiments.sweep":
        return [*words, *less, "--seeds=2"]
    if name == "experiments.evaluate":
        return [*words, "--problems=8"]
    if name == "experiments.contest":
        return [*words, "--contests=2", "--ticks=8"]
    if words[:2] == ["python", "train_mine.py"]:
        return [*words, "10"]
    return words


def clone(folder: pathlib.Path) -> None:
    """Copies the repository, with the files that the pages say to save."""
    for name in CLONED:
        shutil.copytree(ROOT / name, folder / name)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for page in BRING_YOUR_OWN:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, code in saved_files(text).items():
            if name:
                (folder / name).write_text(code, encoding="utf-8")


def type_in(lines: list[str], folder: pathlib.Path, kept: dict[str, str]):
    """Types lines into one shell that has nothing but a Python and a way to install.

    Args:
      lines: commands; the shell stays the same, so one may activate what another made.
      folder: where.
      kept: environment variables that it has beside PATH.

    Yields:
      A ``Step`` for every command as it ends; what they say goes to standard error.
    """
    python = pathlib.Path(sys._base_executable).parent
    script = "".join(f"{line}\necho {_MARK} $?\n" for line in lines)
    left, started = iter(lines), time.monotonic()
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**kept, "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            text, mark, code = line.rpartition(_MARK)
            sys.stderr.write(text if mark else line)
            if mark:
                now = time.monotonic()
                yield Step(next(left), now - started, int(code))
                started = now


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="smoke tests for runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home, folder = pathlib.Path(temporary, "home"), pathlib.Path(temporary, "clone")
        home.mkdir()
        folder.mkdir()
        clone(folder)
        typed = [*told(ROOT), *map(shlex.split, TYPED)]
        lines = [shlex.join(shrunk(w) if options.tiny else w) for w in typed]
        # what a person has set up for pip is the machine's, not ours
        kept = {n: v for n, v in os.environ.items() if n.startswith("PIP_")}
        steps = []
        for step in type_in(lines, folder, {"HOME": str(home), **kept}):
            steps.append(step)
            print(step, flush=True)
    total = sum(step.seconds for step in steps)
    failed = sum(step.code != 0 for step in steps) + len(lines) - len(steps)
    print(f"{total:7.1f} s  {len(steps)} of {len(lines)} commands, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
