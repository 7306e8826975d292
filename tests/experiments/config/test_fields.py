"""Fields of a config: one list, one way to type a value, the same config from disk."""

import json

import pytest

from experiments.config import command_line, fields, renames
from experiments.configs import default, quickstart, smoke

FIELDS = dict(fields.flatten(default.get_config()))


def test_every_field_has_a_kind_and_only_what_is_none_may_be_none():
    assert list(fields.kinds()) == list(FIELDS)
    optional = {name for name, kind in fields.kinds().items() if kind.optional}
    assert optional == {name for name, value in FIELDS.items() if value is None}
    assert "env.code_execution.verdict_latency.maximum" in optional


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("learner.learning_rate", "3", 3.0),
        ("learner.learning_rate", "1e-4", 1e-4),
        ("seed", "7", 7),
        ("profile", "True", True),
        ("env.name", "tool_workflow", "tool_workflow"),
        ("env.code_execution.stages", "('code',)", ("code",)),
        ("env.code_execution.stages", "[]", ()),
        ("evaluation.pass_at", "(1, 8)", (1, 8)),
        ("env.code_execution.verdict_latency.maximum", "none", None),
        ("env.code_execution.verdict_latency.maximum", "30", 30),
        (
            "env.code_execution.latency_of_stage",
            "[('code', [3])]",
            (("code", (3,)),),
        ),
    ],
)
def test_a_value_is_typed_the_same_way_everywhere(field, text, value):
    parsed = fields.parse(field, text)
    assert parsed == value and type(parsed) is type(value)
    assert (
        dict(fields.flatten(fields.change(smoke.get_config(), {field: parsed})))[field]
        == value
    )


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("learner.learning_rat", "1", "did you mean 'learner.learning_rate'"),
        ("learning_rate", "1", "did you mean '.*learning_rate'"),
        ("learner", "1", "a group of fields, which are set one by one: learner"),
        ("zzzz", "1", "'zzzz' is no field of the config$"),
        ("learner.learning_rate", "fast", "learning_rate='fast' must be a number$"),
        ("rollout.group_size", "8.5", "group_size='8.5' must be an int$"),
        ("rollout.group_size", "none", "group_size='none' must be an int$"),
        ("rollout.group_size", "9" * 5000, "must be an int$"),
        ("algorithm.use_ranks", "1", "must be true or false"),
        ("env.code_execution.stages", "code", r'like \("a", "b"\), \("a",\) or \(\)'),
        ("env.code_execution.stages", "('code')", "must be a tuple"),
        ("env.code_execution.stages", "(" * 10**4, "must be a tuple"),
        ("env.code_execution.verdict_latency.maximum", "2.5", "an int, or none"),
    ],
)
def test_what_is_mistyped_is_refused_with_how_to_type_it(field, text, message):
    with pytest.raises(ValueError, match=message):
        fields.parse(field, text)


def test_a_change_leaves_the_config_alone_and_is_checked():
    base = smoke.get_config()
    assert fields.change(base, {"seed": 3}).seed == 3 and base.seed == 0
    for field, value in {
        "rollout.group_size": 8.5,
        "rollout.num_lanes": True,
        "seed": None,
        "learner": {"learning_rate": 1.0},
        "learner.learning_rate": 10**400,
        "env.name": 3,
    }.items():
        with pytest.raises(ValueError, match=field.replace(".", r"\.")):
            fields.change(base, {field: value})


def test_a_config_file_that_invents_a_field_is_told():
    # the config of a file is not locked, so a slip of the pen makes a new field
    config = smoke.get_config()
    config.learner.learning_rat = 1e-4
    with pytest.raises(ValueError, match=r"did you mean 'learner\.learning_rate'"):
        fields.check(config)
    config = smoke.get_config()
    del config.learner["b2"]
    with pytest.raises(ValueError, match=r"'learner\.b2' is missing"):
        fields.check(config)


def saved(config):
    return json.loads(config.to_json())


@pytest.mark.parametrize(
    "config", [default, quickstart, smoke], ids=lambda x: x.__name__
)
def test_a_config_comes_back_from_disk_as_it_was(config):
    config = config.get_config()
    back = fields.from_tree(saved(config))
    assert dict(fields.flatten(back)) == dict(fields.flatten(config))
    assert back.is_locked


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_of_a_config_from_disk_can_be_changed(field):
    # tuples came back as lists and None as a field of no type: 15 could not be
    back = fields.from_tree(saved(smoke.get_config()))
    typed = {bool: "true", int: "3", float: "0.5", str: "a", tuple: "('a',)"}
    value = {bool: True, int: 3, float: 0.5, str: "a", tuple: ("a",)}
    kind = fields.kinds()[field].type
    changed = fields.change(back, {field: fields.parse(field, typed[kind])})
    assert dict(fields.flatten(changed))[field] == value[kind]


FOREIGN = [None, [], {}, 3, "text", {"seed": 1}, [1, 2], True, {"schema_version": 2}]


@pytest.mark.parametrize("tree", FOREIGN, ids=str)
def test_what_is_no_config_is_refused(tree):
    with pytest.raises(ValueError, match=r"must be|is missing"):
        fields.from_tree(tree)


WRONG = [None, [], {}, True, "text", 2.5, 3, {"a": 1}, [1], [None], -(10**400)]


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_type_on_disk_is_refused_by_its_field(field):
    kind, refused = fields.kinds()[field], 0
    for value in WRONG:
        tree = saved(smoke.get_config())
        *groups, name = field.split(".")
        group = tree
        for part in groups:
            group = group[part]
        group[name] = value
        try:
            fields.from_tree(tree)
        except ValueError as error:
            assert field in str(error)
            refused += 1
        else:
            fitting = {bool: bool, int: int, float: int | float, str: str, tuple: list}
            assert value is None or isinstance(value, fitting[kind.type])
            assert value is not None or kind.optional
            assert kind.type is bool or not isinstance(value, bool)
    assert refused >= 6
    del group[name]
    with pytest.raises(ValueError, match=field.replace(".", r"\.")):
        fields.from_tree(tree)


def test_a_config_of_the_first_edition_is_read_by_its_old_names():
    written = json.loads(default.get_config().to_json())
    written["schema_version"] = 1
    del written["critic"], written["evaluation"]["temperature"]  # came later
    algorithm = written["algorithm"]
    algorithm["clip_low"] = 0.3
    algorithm["exclude_silent"] = not algorithm.pop("exclude_zero_variance")
    algorithm["importance_level"] = algorithm.pop("importance_granularity")
    algorithm["calibrated"]["fixed_worth"] = algorithm["calibrated"].pop("fixed_beta")
    with pytest.warns(FutureWarning) as warned:
        config = fields.from_tree(written)
    old = sorted(str(warning.message).split("'")[1] for warning in warned)
    assert old == sorted(renames.RENAMED)  # one warning each
    assert config.schema_version == default.get_config().schema_version
    assert config.algorithm.exclude_zero_variance is True
    assert config.algorithm.clip_low == 0.3
    assert config.critic.to_dict() == default.get_config().critic.to_dict()
    written["schema_version"] = 2
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ValueError, match=r"'critic\.batch_size' is missing"),
    ):
        fields.from_tree(written)


def test_an_old_name_is_none_of_todays_and_its_new_one_is():
    for old, now in renames.RENAMED.items():
        assert old not in fields.kinds() and now in fields.kinds()


def test_an_old_name_can_be_typed():
    with pytest.warns(FutureWarning, match="'algorithm.exclude_zero_variance' now"):
        config = fields.change(default.get_config(), {"algorithm.exclude_silent": True})
    assert config.algorithm.exclude_zero_variance is True
    with pytest.warns(FutureWarning, match="fixed_beta"):
        assert command_line.parse_change("algorithm.calibrated.fixed_worth=0.5") == (
            "algorithm.calibrated.fixed_beta",
            0.5,
        )
