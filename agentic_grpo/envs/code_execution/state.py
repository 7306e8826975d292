"""The state of N groups in the code-execution environment."""

import jax

from agentic_grpo import records


@records.record
class Suites:
    """The tests of N groups, visible ones first, K + H of them: common to a group.

    Attributes:
      inputs: int32 [N, K + H, 2]; n and m.
      expected: int32 [N, K + H]; the right answers.
      fuel: int32 [N, K + H].
      timed: bool [N, K + H]; large input and strict fuel.
      brute_fuel: int32 [N, K + H]; what the brute force uses, the loose fuel at most; 0
        where no score asks for it.
    """

    inputs: jax.Array
    expected: jax.Array
    fuel: jax.Array
    timed: jax.Array
    brute_fuel: jax.Array


@records.record
class Members:
    """What each member of N groups has done so far.

    Attributes:
      seed: float32 [N, G], uniform; lets a scripted agent be of one mind in an episode.
      program: int32 [N, G, L]; the current program, all HALT before the first.
      plan: int32 [N, G]; the plan that binds it, ``plans.UNBOUND`` before any.
      revealed: bool [N, G]; a hypothesis has brought the hidden parameter to light.
      keeps_digit: bool [N, G]; no summary has lost that parameter since.
      keeps_status: bool [N, G]; nor the status of the last program.
      visible_status: int32 [N, G, K] TestStatus of the last program on visible tests.
      own_inputs: int32 [N, G, k, 2]; the inputs that its tests stage wrote.
      own_valid: bool [N, G, k]; which of them are valid.
      own_status: int32 [N, G, k] TestStatus of its program on them.
      stages_written, tokens_written: int32 [N, G].
      ended: bool [N, G].
    """

    seed: jax.Array
    program: jax.Array
    plan: jax.Array
    revealed: jax.Array
    keeps_digit: jax.Array
    keeps_status: jax.Array
    visible_status: jax.Array
    own_inputs: jax.Array
    own_valid: jax.Array
    own_status: jax.Array
    stages_written: jax.Array
    tokens_written: jax.Array
    ended: jax.Array


@records.record
class CodeState:
    """N groups.

    Attributes:
      problem: int32 [N]; row of the problem table.
      hidden: bool [N]; the statement hides a parameter.
      suites: the tests.
      members: the members.
    """

    problem: jax.Array
    hidden: jax.Array
    suites: Suites
    members: Members
