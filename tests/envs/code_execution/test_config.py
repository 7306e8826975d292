"""Settings are checked where they are made; errors name field, value and rule."""

import pytest

from agentic_grpo.envs.code_execution import CodeExecutionConfig, Latency


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"families": ()}, r"families=\(\) must be not empty"),
        ({"families": ("nope",)}, r"families='nope' must be one of"),
        ({"families": ("cubes", "cubes")}, r"families=.* free of repetitions"),
        ({"families": ["cubes"]}, r"families=.* a tuple"),
        ({"stages": ()}, "stages=.* a program is written"),
        ({"stages": ("coding",)}, "stages='coding' must be one of"),
        ({"stages": ("hypothesis", "tests")}, "stages=.* a program is written"),
        ({"stages": ("code",)}, "hidden_rate=0.5 .* hypothesis"),
        ({"hidden_rate": 1.5}, r"hidden_rate=1.5 must be in \[0, 1\]"),
        ({"num_cases": 0}, r"num_cases=0 must be an integer in 1 \.\. 4"),
        ({"num_cases": 2.0}, r"num_cases=2.0"),
        ({"unrewarded_stages": ("tests",)}, "unrewarded_stages='tests'"),
        ({"num_visible_tests": 9}, "num_visible_tests=9"),
        ({"num_hidden_tests": 1}, "num_hidden_tests=1"),
        ({"visible_fidelity": -0.1}, "visible_fidelity of .*=-0.1"),
        ({"visible_fidelity": (("cubes", 0.5),)}, "visible_fidelity=.* one pair for"),
        ({"fidelity_mode": "honest"}, "fidelity_mode='honest'"),
        ({"verdict": "partial"}, "verdict='partial'"),
        ({"full_speedup": 1.0}, "full_speedup=1.0 must be greater than 1"),
        ({"stage_cost": 2.0}, "stage_cost=2.0"),
        ({"latency_of_stage": (("coding", Latency(minimum=1)),)}, "'coding'"),
    ],
)
def test_a_wrong_field_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CodeExecutionConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minimum": -1}, "minimum=-1"),
        ({"minimum": 3, "maximum": 2}, "maximum=2 must be at least 3"),
        ({"minimum": 1, "maximum": 2, "tail_probability": 2}, "tail_probability=2"),
        ({"minimum": 1, "tail_probability": 0.5}, "tail_probability=0.5"),
    ],
)
def test_a_wrong_latency_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Latency(**fields)


def test_fidelity_is_one_for_all_or_one_per_family():
    config = CodeExecutionConfig(families=("cubes", "toggle"), visible_fidelity=0.5)
    assert config.fidelity_of_family == {"cubes": 0.5, "toggle": 0.5}
    pairs = (("toggle", 1.0), ("cubes", 0.0))
    config = CodeExecutionConfig(families=("cubes", "toggle"), visible_fidelity=pairs)
    assert config.fidelity_of_family == {"cubes": 0.0, "toggle": 1.0}


def test_latency_is_looked_up_by_stage():
    slow = Latency(minimum=5)
    config = CodeExecutionConfig(latency_of_stage=(("code", slow),))
    assert config.latency_of("code") is slow
    assert config.latency_of("debug") == config.stage_latency
