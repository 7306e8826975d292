"""Builds the site of the documentation, any warning being an error.

  python scripts/build_docs.py [--output=build/site]

The pages stay where they are read on disk, beside the code that they are about. They
are gathered here in the same folders, so that every link between them holds in both
places and no text is written twice.
Needs the extra: pip install -e '.[docs]'.
"""

import argparse
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: What the pages are made of, and what they show.
PAGES = (
    "*.md",
    "CITATION.cff",
    "docs/*.md",
    "agentic_grpo/*/README.md",
    "experiments/results/*.md",
    "experiments/results/*/*.md",
    "experiments/results/*/*.png",
)


def gather(folder: pathlib.Path) -> None:
    """Copies all pages and pictures, each to its path in the repository."""
    for pattern in PAGES:
        for path in ROOT.glob(pattern):
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", default="build/site", help="its folder")
    options = parser.parse_args()
    if importlib.util.find_spec("mkdocs") is None:
        sys.exit("build_docs: mkdocs is not installed: pip install -e '.[docs]'")
    output = pathlib.Path(options.output).absolute()
    with tempfile.TemporaryDirectory() as temporary:
        pages = pathlib.Path(temporary) / "pages"
        gather(pages)
        config = pathlib.Path(temporary) / "mkdocs.yml"
        text = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
        text = text.replace("paths: [..]", f"paths: ['{ROOT}']")
        config.write_text(f"{text}docs_dir: '{pages}'\n", encoding="utf-8")
        build = ["build", "--strict", f"--config-file={config}", f"--site-dir={output}"]
        done = subprocess.run([sys.executable, "-m", "mkdocs", *build], check=False)
    if done.returncode == 0:
        print(output / "index.html")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
