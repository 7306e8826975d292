"""Python tasks of a config: the problems, the tokenizer, the sandbox."""

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Iterator

from agentic_grpo.envs import python_tasks, simulated_clock
from agentic_grpo.envs.latency import Latency
from agentic_grpo.envs.python_tasks import problem
from agentic_grpo.errors import Refused
from agentic_grpo.texts import FORMS, ByteTokenizer, load_tokenizer, open_chat
from agentic_grpo.training import paths
from experiments.config import latencies, programs, warm_start
from experiments.config.checks import choose, instantiate, require
from experiments.config.setting import Setting

PATH = "env.python_tasks"
GENERATED, HUMAN_EVAL = "generated", "humaneval"
#: How problems are put: code that is gone on with, or a conversation in some form.
COMPLETION = "completion"
FORM_NAMES = (COMPLETION, "published", *FORMS)
_OWN = tuple(one.name for one in dataclasses.fields(python_tasks.PythonTasksConfig))


def fields() -> dict:
    """The fields of ``env.python_tasks``: those of the environment, and these.

    problems: ``generated``, ``humaneval`` or a file of JSON lines. families (none: all)
    and levels choose among the generated ones. form: of ``FORM_NAMES``. workers:
    programs that run at a time.
    """
    return dataclasses.asdict(python_tasks.PythonTasksConfig()) | {
        "problems": GENERATED,
        "families": (),
        "levels": (1, 2, 3, 4, 5),
        "large_visible": False,
        "form": COMPLETION,
        "workers": 2,
        "stage_latency": latencies.fields_of(Latency(minimum=1)),
        "latency_of_stage": (),
        "verdict_latency": latencies.fields_of(Latency(minimum=2)),
    }


def build(config, published) -> Setting:
    """The environment on the simulated clock.

    Args:
      config: of the run.
      published: the path of the model whose tokenizer is used; None: bytes are tokens.

    Raises:
      ValueError: names the field, its value and the rule; or the problem, the file.
    """
    env = config.env.python_tasks
    own = instantiate(
        PATH, python_tasks.PythonTasksConfig, {name: env[name] for name in _OWN}
    )
    problems = _problems(env)
    tokenizer = ByteTokenizer() if published is None else load_tokenizer(published.path)
    chat = _chat(env.form, tokenizer, published)
    pool = programs.LazyPool(env.workers)
    sandbox = programs.sandbox_of(pool)
    try:
        tasks = python_tasks.PythonTasks(
            problems,
            own,
            tokenizer=tokenizer,
            sandbox=sandbox,
            chat=chat,
            vocabulary_size=published and published.weights.config.vocabulary_size,
        )
    except Refused as error:
        raise error.under(PATH) from error
    return Setting(
        environment=_on_simulated_clock(env, tasks),
        agent=_agent(config, tasks),
        at_work=functools.partial(_at_work, pool, problems, own, sandbox),
        digest=functools.partial(_digest, problems),
    )


@contextlib.contextmanager
def _at_work(pool, problems, own, sandbox) -> Iterator[None]:
    with pool.running():
        try:
            python_tasks.check_references(problems, own, sandbox)
        except Refused as error:
            raise error.under(PATH) from error
        except RuntimeError as error:
            raise ValueError(f"env.name='python_tasks': {error}") from error
        yield


def _digest(problems):
    total = hashlib.sha256()
    for one in problems:
        fields = {**vars(one), "visible": None, "hidden": None}
        calls = [(call.args, call.want) for call in one.visible + one.hidden]
        total.update(f"{fields}\n{problem.spell(calls)}\n".encode())
    return total.hexdigest()


def _problems(env):
    chosen = tuple(env.families), tuple(env.levels), env.large_visible
    if env.problems == GENERATED:
        return _generated(*chosen)
    default = fields()
    for name in ("families", "levels", "large_visible"):
        require(
            env[name] == default[name],
            f"{PATH}.{name}",
            env[name],
            f"{default[name]!r}: it chooses among problems={GENERATED!r}, and problems="
            f"{env.problems!r}",
        )
    if env.problems == HUMAN_EVAL:
        return python_tasks.human_eval()
    path = paths.locate(env.problems, f"{PATH}.problems")
    require(
        path.is_file(),
        f"{PATH}.problems",
        env.problems,
        f"{GENERATED}, {HUMAN_EVAL} or a file of JSON lines; there is none",
    )
    return python_tasks.read_problems(path)


@functools.cache
def _generated(families, levels, large_visible):
    """A sweep builds them once; they are made by running every reference."""
    try:
        return python_tasks.generate(
            families or tuple(python_tasks.FAMILIES),
            levels=levels,
            large_visible=large_visible,
        )
    except Refused as error:
        raise error.under(PATH) from error


def _chat(form, tokenizer, published):
    choose(f"{PATH}.form", form, dict.fromkeys(FORM_NAMES))
    if form == COMPLETION:
        return None
    rule = f"{COMPLETION!r} without model.pretrained: bytes know no conversations"
    require(published is not None, f"{PATH}.form", form, rule)
    try:
        return open_chat(tokenizer, form)
    except ValueError as error:
        raise ValueError(f"{PATH}.form: {error}") from error


def _on_simulated_clock(env, tasks):
    names = [stage.name for stage in tasks.spec.layout.stages]
    of_stage = dict(latencies.of_stages(PATH, env))
    for name in of_stage:
        choose(f"{PATH}.latency_of_stage", name, dict.fromkeys(names))
    usual = instantiate(f"{PATH}.stage_latency", Latency, env.stage_latency)
    return simulated_clock.on_simulated_clock(
        tasks,
        stage_latencies=[of_stage.get(name, usual) for name in names],
        verdict_latency=instantiate(
            f"{PATH}.verdict_latency", Latency, env.verdict_latency
        ),
    )


def _agent(config, tasks):
    """Knows every problem's reference; where nobody asks it there may be none."""
    if not warm_start.settings(config).num_steps:
        return None
    try:
        return python_tasks.ScriptedAgent(tasks, **config.agent.python_tasks)
    except Refused as error:
        where = PATH if error.field.startswith("problems") else "agent.python_tasks"
        raise error.under(where) from error
