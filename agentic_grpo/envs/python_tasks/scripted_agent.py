"""A scripted agent that knows a right program, a slow one and a wrong one."""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.envs.simulated_clock import HostState
from agentic_grpo.errors import require

_QUICK, _SLOW, _WRONG = range(3)


class ScriptedAgent:
    """Implements ``envs.base.ScriptedAgent`` for tasks on the simulated clock.

    Per stage:

    * hypothesis: the right value where it would write a right program, else ``None``.
    * code: the reference in ``quick_share`` of the cases, the slow program in
      ``slow_share`` (the reference again where there is none), else one that returns
      nothing.
    * debug: nothing if the last stage earned its full reward, else one drawn anew.

    Args:
      tasks: whose problems it knows.
      quick_share, slow_share: in [0, 1], and at most 1 together.

    Raises:
      Refused: a share is none; a problem has no reference, or one that is longer than
        the stage.
    """

    def __init__(
        self, tasks: PythonTasks, *, quick_share: float, slow_share: float = 0.0
    ):
        for name, share in (("quick_share", quick_share), ("slow_share", slow_share)):
            require(0.0 <= share <= 1.0, name, share, "in [0, 1]")
        both = quick_share + slow_share
        require(both <= 1.0, "quick_share + slow_share", both, "at most 1")
        self._shares = np.cumsum([quick_share, slow_share]).astype(np.float32)
        self._spec, self._stages = tasks.spec, tasks.config.stages
        width = tasks.spec.layout.max_action_width
        texts = [_texts(tasks, one) for one in tasks.list]
        count = len(self._stages)
        shape = len(texts), count, 3
        self._tokens = np.full((*shape, width), tasks.spec.pad_token, np.int32)
        self._length = np.zeros(shape, np.int32)
        limits = tasks.spec.layout.action_widths
        for number, of_problem in enumerate(texts):
            for stage in range(count):
                for kind in range(3):
                    written = [*of_problem[stage][kind], tasks.spec.end_tokens[0]]
                    written = written[: limits[stage]]
                    self._tokens[number, stage, kind, : len(written)] = written
                    self._length[number, stage, kind] = len(written)

    def __call__(
        self, state: HostState, stage: jax.Array, keys: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage: tokens int32 [N, G, A] and their mask bool [N, G, A]."""
        members = state.reward.shape[1]
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (members,)))(keys)
        thresholds = jnp.asarray(self._shares)[None, None]
        kind = jnp.sum(uniform[..., None] >= thresholds, axis=-1, dtype=jnp.int32)
        place = state.problem[:, None], stage[:, None], kind
        tokens = jnp.asarray(self._tokens)[place]
        length = jnp.asarray(self._length)[place]

        is_debug = jnp.asarray([name == "debug" for name in self._stages])[stage]
        submits = is_debug[:, None] & (state.reward == 1.0)
        tokens = jnp.where(submits[..., None], self._spec.end_tokens[0], tokens)
        length = jnp.where(submits, 1, length)
        numbers = jnp.arange(tokens.shape[-1], dtype=jnp.int32)[None, None]
        mask = numbers < length[..., None]
        return jnp.where(mask, tokens, self._spec.pad_token), mask


def _texts(tasks, problem):
    """Tokens of a quick, a slow and a wrong text, for each stage."""
    field = f"problems[{problem.id!r}].reference"
    require(problem.reference is not None, field, None, "known to the scripted agent")
    wrong = f"{problem.statement.rstrip()}\n    return None\n"
    programs = problem.reference, problem.slow or problem.reference, wrong
    texts = []
    for index, name in enumerate(tasks.config.stages):
        if name == "hypothesis":
            right = repr(problem.visible[0].want)
            of_stage = right, right, "None"
        else:
            of_stage = programs
        written = [
            tasks.form.write(problem, name, text, is_first=index == 0)
            for text in of_stage
        ]
        width = tasks.spec.layout.stages[index].action_width
        longest = 1 + max(map(len, written))
        if name != "hypothesis":
            rule = (
                f"a program of at most {width} tokens, its end included; {longest} here"
            )
            require(longest <= width, field, problem.reference, rule)
        texts.append(written)
    return texts
