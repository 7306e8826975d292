"""The state of N groups in the tool-workflow environment."""

import jax

from agentic_grpo import records


@records.record
class Problem:
    """What N groups work on; P requests, R = 1 + K + H records.

    Record 0 is the example, then come those of the K checks, then the H audited ones.

    Attributes:
      moving: bool [N]; the cached copies are out of date (but for the example).
      hidden: bool [N]; the statement hides the digit of the last request.
      kind, x, y, digit: int32 [N, P]; the requests.
      origin: int32 [N, R, 4]; the records where they are kept.
      cached: int32 [N, R, 4]; their copies.
      goal: int32 [N, R, 4]; the right results.
      left: int32 [N, P, 2]; what the example holds in x and y after each request.
      hidden_like: bool [N, K]; the check looks at its own record, not at the example.
      budget: int32 [N].
    """

    moving: jax.Array
    hidden: jax.Array
    kind: jax.Array
    x: jax.Array
    y: jax.Array
    digit: jax.Array
    origin: jax.Array
    cached: jax.Array
    goal: jax.Array
    left: jax.Array
    hidden_like: jax.Array
    budget: jax.Array


@records.record
class Members:
    """What each member of N groups has done so far.

    Attributes:
      seed: float32 [N, G], uniform; lets a scripted agent be of one mind in an episode.
      route: int32 [N, G]; of ``vocabulary.ROUTES``.
      draft: int32 [N, G, P, 2, 3]; the calls of each part, ABSENT before it is written.
      parts_written: int32 [N, G].
      wasted: int32 [N, G]; spent on revisions and on texts that name no route.
      revealed: bool [N, G]; a check has brought the hidden digit to light.
      ended: bool [N, G].
    """

    seed: jax.Array
    route: jax.Array
    draft: jax.Array
    parts_written: jax.Array
    wasted: jax.Array
    revealed: jax.Array
    ended: jax.Array


@records.record
class WorkflowState:
    """N groups."""

    problem: Problem
    members: Members
