"""The site is made of the pages that exist; the build checks the rest."""

import pathlib
import re

from scripts import build_docs

ROOT = build_docs.ROOT
CONFIG = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_of_the_repository_is_gathered_under_its_path(tmp_path):
    build_docs.gather(tmp_path)
    gathered = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.md")}
    rooms = ("agentic_grpo", "docs", "experiments")
    pages = {path for room in rooms for path in (ROOT / room).rglob("*.md")}
    assert {path.relative_to(ROOT) for path in pages} <= gathered
    assert pathlib.Path("README.md") in gathered


def test_the_menu_has_every_page_for_readers():
    named = set(re.findall(r": ([\w/]+\.md)$", CONFIG, re.M))
    assert all((ROOT / name).is_file() for name in named)
    wanted = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")}
    wanted |= {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("agentic_grpo/*/README.md")
    }
    assert wanted <= named


def test_the_reference_names_modules_that_exist():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: ([\w.]+)$", text, re.M)
    assert names
    for name in names:
        parts = [part for part in name.split(".") if part.islower()]
        path = ROOT.joinpath(*parts)
        assert path.with_suffix(".py").is_file() or path.is_dir(), name
