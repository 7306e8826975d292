"""The compile cache is on where it can be, named after the machine, and never fatal."""

import os
import pathlib
import time
import zlib

import jax
import jaxlib
import pytest

from agentic_grpo.training import compile_cache, host


@pytest.fixture(autouse=True)
def restored_settings(monkeypatch):
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_default_folder_names_processor_and_version(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compile_cache.enable()
    name = f"{host.processor_slug()}-jaxlib{jaxlib.__version__}"
    assert folder == tmp_path / "agentic_grpo" / name and folder.is_dir()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert compile_cache.enable().is_relative_to(tmp_path / "home" / ".cache")


def test_a_path_beats_the_variable_which_beats_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "variable"))
    assert compile_cache.enable() == tmp_path / "variable"
    monkeypatch.chdir(tmp_path)
    assert compile_cache.enable("path") == tmp_path / "path"


@pytest.mark.parametrize("directory", ["", "off"])
def test_it_can_be_switched_off_even_against_the_variable(
    tmp_path, monkeypatch, directory
):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    compile_cache.enable()
    assert compile_cache.enable(directory) is None
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert compile_cache.enable(str(tmp_path / "file" / "cache")) is None
    assert jax.config.jax_compilation_cache_dir is None


def test_machines_with_other_instructions_do_not_share(monkeypatch):
    # a hypervisor's "AMD EPYC" may or may not have AVX-512
    def slug(cpuinfo):
        monkeypatch.setattr(pathlib.Path, "read_text", lambda *_, **__: cpuinfo)
        return host.processor_slug()

    plain = slug("model name\t: AMD EPYC (9B14)\nflags\t: sse avx2\n\nprocessor\t: 1\n")
    wide = slug("model name\t: AMD EPYC (9B14)\nflags\t: sse avx2 avx512f\n")
    assert plain != wide
    assert plain.startswith("amd-epyc-9b14-") and len(plain) == len(wide) == 22
    assert "/" not in slug("model name : Odd/Name ~ µ\n")


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_half_written_entries_are_removed_and_nothing_else(tmp_path):
    # JAX warned of such an entry at every start and never replaced it
    whole = zlib.compress(bytes(range(256)) * 999)
    contents = {
        "whole-cache": whole,
        "half-cache": whole[: len(whole) // 2],
        "all_but_one-cache": whole[:-1],
        "empty-cache": b"",
        "spoilt-cache": whole[:9] + b"\xff\xff" + whole[11:],
        "zstd-cache": b"\x28\xb5\x2f\xfd half",  # JAX's other format; not ours to judge
        "young-cache": whole[:-1],  # may still be being written
        "notes.txt": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        age(tmp_path / name, 3600)
    age(tmp_path / "young-cache", 1)
    compile_cache.enable(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir() if path.name in contents}
    assert left == {"whole-cache", "zstd-cache", "young-cache", "notes.txt"}


def test_an_entry_is_looked_at_once(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        compile_cache, "_is_whole", lambda path: seen.append(path.name) or True
    )
    for name, seconds in (("old-cache", 3600), ("young-cache", 1)):
        (tmp_path / name).write_bytes(b"")
        age(tmp_path / name, seconds)
    compile_cache.enable(str(tmp_path))
    assert seen == ["old-cache"]
    monkeypatch.setattr(time, "time", lambda clock=time.time: clock() + 3600)
    for _ in range(2):
        compile_cache.enable(str(tmp_path))
    assert seen == ["old-cache", "young-cache"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no such users")
def test_a_strangers_folder_that_anybody_may_write_is_no_cache(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    assert compile_cache.enable(str(tmp_path)) == tmp_path  # it is ours
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    assert compile_cache.enable(str(tmp_path)) is None
    assert jax.config.jax_compilation_cache_dir is None
    tmp_path.chmod(0o755)
    assert compile_cache.enable(str(tmp_path)) == tmp_path


def test_a_relative_folder_is_that_of_the_caller(tmp_path, monkeypatch):
    # a sweep starts its runs elsewhere, and the folder landed there
    monkeypatch.chdir(tmp_path)
    assert compile_cache.locate("cache") == str(tmp_path / "cache")
    assert compile_cache.locate("off") == "off" and compile_cache.locate(None) is None
