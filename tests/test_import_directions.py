"""Imports point down only, rooms of one floor do not know each other.

scripts -> experiments -> training -> {rollout, learner} -> episodes
        -> {envs, models, snapshots} -> ops -> {records, layout, blocks, errors}

Nothing that is installed or run imports the tests. Large rooms have inner walls.
"""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: What each room may import besides itself.
ALLOWED = {
    "errors": set(),
    "records": set(),
    "layout": {"records"},
    "blocks": set(),
    "ops": {"records"},
    "envs": {"records", "layout"},
    "models": {"records", "layout", "ops"},
    "texts": set(),
    "critic": {"records", "layout", "blocks", "ops", "models"},
    "snapshots": {"records", "layout", "ops"},
    "episodes": {"records", "layout", "ops", "envs", "models", "snapshots"},
    "rollout_metrics": {"records", "layout", "ops", "envs"},
    "batch_parts": set(),
    "learner": {"records", "ops", "batch_parts"},
}
ALLOWED["lanes"] = {"records", "layout", "ops", "envs", "snapshots", "episodes"}
ALLOWED["rollout"] = set(ALLOWED) - {"learner", "batch_parts", "critic", "texts"}
for names in ALLOWED.values():
    names.add("errors")  # how input is refused
ALLOWED["sandbox"] = set()  # nothing of ours, not even that
ROOMS = set(ALLOWED)
ALLOWED["training"] = ROOMS
ALLOWED["the front door"] = ROOMS | {"training"}
ALLOWED["experiments"] = ROOMS | {"training", "the front door"}
ALLOWED["scripts"] = ALLOWED["experiments"] | {"experiments"}

#: What each inner room may import of its own house; its mains may import all of them.
INNER_WALLS = {
    "agentic_grpo.envs.code_execution": {
        "vm": set(),
        "lookup": set(),
        "state": set(),
        "judging": {"vm", "lookup"},
        "problems": {"vm", "lookup", "judging"},
        "config": {"problems"},
        "stages": {"vm", "lookup", "state", "judging", "problems", "config"},
    },
    "agentic_grpo.envs.python_tasks": {
        "problem": set(),
        "config": set(),
        "protocols": set(),
        "showing": set(),
        "families": {"problem"},
        "problem_files": {"problem"},
        "statements": {"problem", "protocols", "showing"},
        "judging": {"problem", "config", "protocols", "showing"},
        "asking": {"judging", "protocols"},
        "workflow": {"problem", "config", "protocols", "statements"},
    },
    "agentic_grpo.models": {
        "attention": set(),
        "adapters": set(),
        "layers": {"attention", "adapters"},
        "transformer": {"attention", "adapters", "layers"},
        "pretrained": {"attention", "transformer"},
    },
    "agentic_grpo.sandbox": {
        "values": set(),
        "jobs": set(),
        "judging": {"values", "jobs"},
        # inside: what a worker and its children are made of
        "filters": set(),
        "walls": {"filters"},
        "program": {"values", "jobs"},
        "worker": {"walls", "program"},
        # on the host
        "payloads": {"values", "jobs"},
        "transcripts": {"values", "jobs"},
        "worker_process": {"transcripts"},
        "dispatcher": {"jobs", "worker_process"},
        "pool": {"jobs", "filters", "payloads", "dispatcher"},
        "attacks": {"jobs"},
    },
    "experiments": {
        "config": {"configs"},  # the default config is the list of all fields
        "runs": {"config"},
        "sweeps": {"config", "runs"},
        "studies": {"config", "runs", "sweeps"},
    },
}

#: Libraries and names with one home: dotted names, and the paths that may use them.
HOMES = {
    "ml_collections": ("experiments/",),
    "orbax": ("agentic_grpo/training/checkpoints.py",),
    "flax": ("agentic_grpo/models/",),
    "safetensors": ("agentic_grpo/models/pretrained/",),
    "gguf": ("agentic_grpo/models/pretrained/", "agentic_grpo/texts/"),
    "tokenizers": ("agentic_grpo/texts/", "scripts/benchmarks/workers/"),
    "jinja2": ("agentic_grpo/texts/",),
    "jax.distributed": ("agentic_grpo/training/processes.py",),
    "jax.make_mesh": ("agentic_grpo/training/devices.py",),
    "jax.pmap": ("agentic_grpo/training/compiling.py",),
    "jax.shard_map": ("agentic_grpo/training/devices.py",),
    "jax.experimental.shard_map": ("agentic_grpo/training/devices.py",),
    "jax.experimental.mesh_utils": ("agentic_grpo/training/devices.py",),
    "jax.sharding.Mesh": ("agentic_grpo/training/devices.py",),
    "jax.sharding.AxisType": ("agentic_grpo/training/devices.py",),
}


def sources():
    for folder in ("agentic_grpo", "experiments", "scripts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix()


def names_used(path, text):
    """Every dotted name that a file imports or reaches through an imported name."""
    tree = ast.parse(text)
    bound = {}  # local name -> dotted name
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                local = alias.asname or alias.name.split(".")[0]
                bound[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in bound:
            yield ".".join([bound[node.id], *reversed(parts)])


def room_of_file(path):
    parts = path.removesuffix(".py").split("/")
    if parts == ["agentic_grpo", "__init__"]:
        return "the front door"
    return parts[1] if parts[0] == "agentic_grpo" else parts[0]


def room_of_name(name):
    """The room that a dotted name leads to; None outside this repository."""
    first, _, rest = name.partition(".")
    if first in ("experiments", "scripts", "tests"):
        return first
    if (ROOT / "tests" / f"{first}.py").exists():
        return "tests"
    if first != "agentic_grpo":
        return None
    room = rest.split(".")[0]
    return room if room in ROOMS | {"training"} else "the front door"


def crosses_inner_wall(path, name):
    """Does a file of an inner room import a part of its house that lies above it?"""
    module = path.removesuffix(".py").replace("/", ".")
    for house, walls in INNER_WALLS.items():
        if not (module.startswith(house + ".") and name.startswith(house + ".")):
            continue
        room, target = (x[len(house) + 1 :].split(".")[0] for x in (module, name))
        if room in walls and target not in walls[room] | {room}:
            return True
    return False


def violations(path, text):
    room = room_of_file(path)
    assert room in ALLOWED, f"{path}: a room without a floor in this test"
    for name in set(names_used(path, text)):
        target = room_of_name(name)
        if target not in {None, room} | ALLOWED[room]:
            yield f"{path} ({room}) uses {name} ({target})"
        if crosses_inner_wall(path, name):
            yield f"{path} uses {name} through an inner wall"
        for prefix, homes in HOMES.items():
            if (
                name == prefix or name.startswith(prefix + ".")
            ) and not path.startswith(homes):
                yield f"{path} uses {name}, whose home is {', '.join(homes)}"


def test_imports_point_down_and_libraries_stay_at_home():
    found = [
        violation
        for path in sources()
        for violation in violations(path, (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(sorted(found))


def test_there_is_something_to_look_at():
    rooms = {room_of_file(path) for path in sources()}
    assert {"records", "ops", "training", "the front door", "experiments"} <= rooms


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("agentic_grpo/ops/credit.py", "import agentic_grpo.training.tick"),
        (
            "agentic_grpo/ops/credit.py",
            "def f():\n    from agentic_grpo import learner",
        ),
        ("agentic_grpo/models/decoding.py", "from agentic_grpo.envs import base"),
        ("agentic_grpo/rollout.py", "from agentic_grpo import learner"),
        ("agentic_grpo/envs/base.py", "from agentic_grpo.ops import credit"),
        ("agentic_grpo/training/loop.py", "import experiments.build"),
        ("agentic_grpo/training/tick.py", "from agentic_grpo import StageKind"),
        ("agentic_grpo/ops/credit.py", "import ml_collections"),
        ("agentic_grpo/training/loop.py", "import orbax.checkpoint as ocp"),
        ("agentic_grpo/learner.py", "from flax import nnx"),
        ("agentic_grpo/learner.py", "import jax\njax.pmap(f)"),
        ("agentic_grpo/learner.py", "from jax import shard_map as s"),
        ("experiments/train.py", "import jax as j\nj.distributed.initialize()"),
        ("experiments/train.py", "from scripts import plot_runs"),
        ("agentic_grpo/learner.py", "from agentic_grpo.envs import base"),
        ("agentic_grpo/texts/chat.py", "from agentic_grpo import records"),
        ("agentic_grpo/envs/base.py", "from agentic_grpo import texts"),
        (
            "agentic_grpo/envs/python_tasks/judging.py",
            "from agentic_grpo.sandbox import jobs",
        ),
        (
            "agentic_grpo/envs/python_tasks/judging.py",
            "from agentic_grpo.envs.python_tasks import environment",
        ),
        ("agentic_grpo/envs/base.py", "def f():\n    import tokenizers"),
        (
            "agentic_grpo/models/layers.py",
            "from agentic_grpo.models.pretrained import load_pretrained",
        ),
        ("scripts/benchmark.py", "import toy_environment"),
        ("scripts/benchmark.py", "from tests import references"),
        (
            "agentic_grpo/envs/code_execution/vm/step.py",
            "from agentic_grpo.envs.code_execution.problems import families",
        ),
        ("agentic_grpo/envs/base.py", "from agentic_grpo.sandbox import pool"),
        ("agentic_grpo/sandbox/jobs.py", "from agentic_grpo import records"),
        ("agentic_grpo/sandbox/program.py", "from agentic_grpo.sandbox import pool"),
        ("experiments/runs/workdir.py", "from experiments.sweeps import grid"),
        ("experiments/config/build.py", "import experiments.studies.suites"),
    ],
)
def test_a_wrong_import_is_seen(path, text):
    assert list(violations(path, text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("agentic_grpo/models/decoding.py", "from agentic_grpo.ops import credit"),
        ("agentic_grpo/models/decoding.py", "from agentic_grpo.models import other"),
        ("agentic_grpo/training/devices.py", "import jax\njax.make_mesh((1,), ('x',))"),
        ("experiments/configs/default.py", "import ml_collections"),
        ("experiments/studies/search.py", "from experiments.sweeps import grid"),
        ("experiments/sweep.py", "from experiments.studies import suites"),
        ("scripts/benchmark.py", "import agentic_grpo\nfrom experiments import build"),
        ("agentic_grpo/ops/credit.py", "import jax\njax.lax.psum(x, 'device')"),
    ],
)
def test_a_right_import_is_let_through(path, text):
    assert not list(violations(path, text))
