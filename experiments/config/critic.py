"""The critic of a config, and the rules between it, the credit rule and the pilot."""

from agentic_grpo.critic.learning import CriticSettings
from agentic_grpo.critic.network import decoder_critic, head_critic
from experiments.config.checks import choose, require

#: Rules whose immediate phase may spend a critic's forecast.
TAKE_SIGNAL = ("immediate", "agentic", "calibrated")
SIGNALS = {"reward": "reward", "critic": "forecast"}
KINDS = {"none": None, "decoder": decoder_critic, "head": head_critic}


def check(config, spec) -> None:
    """Refuses a critic that nobody asks, a rule without one, a pilot without an end.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    algorithm, critic = config.algorithm, config.critic
    choose("critic.kind", critic.kind, KINDS)
    choose("algorithm.signal", algorithm.signal, SIGNALS)
    asked = algorithm.signal == "critic"
    require(
        not asked or algorithm.credit in TAKE_SIGNAL,
        "algorithm.signal",
        algorithm.signal,
        f"'reward' with credit {algorithm.credit!r}: it spends nothing before the "
        f"verdict that a critic could forecast ({', '.join(TAKE_SIGNAL)} do)",
    )
    asked = asked or algorithm.credit == "value_baseline"
    if asked:
        require(
            critic.kind != "none",
            "critic.kind",
            critic.kind,
            "decoder or head: the credit rule asks a critic",
        )
    else:
        require(
            critic.kind == "none",
            "critic.kind",
            critic.kind,
            f"'none': credit {algorithm.credit!r} on signal {algorithm.signal!r} has "
            "no use for a critic (algorithm.signal=critic has)",
        )
    require(
        critic.kind != "head" or critic.sees == "all",
        "critic.sees",
        critic.sees,
        "'all' with critic.kind='head': the policy's states have read everything",
    )
    _check_pilot(config, spec)


def _check_pilot(config, spec):
    pilot, deadline = config.algorithm.pilot_groups, config.rollout.verdict_deadline
    require(
        pilot != 1,
        "algorithm.pilot_groups",
        pilot,
        "0, or at least 2: one group is no sample",
    )
    require(
        not pilot or spec.min_verdict_latency <= deadline,
        "algorithm.pilot_groups",
        pilot,
        f"0: no verdict comes within rollout.verdict_deadline={deadline}, the earliest "
        f"takes {spec.min_verdict_latency} ticks, so that a pilot would never end",
    )


def settings(config, spec, policy, *, hidden_size, rows) -> CriticSettings | None:
    """How the critic forecasts and learns; None without one.

    Args:
      config: of the run.
      spec: of the environment.
      policy: whose hidden states a head reads.
      hidden_size: of these states; None: it shows none.
      rows: episodes that can settle per tick and block.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    critic, blocks = config.critic, config.rollout.num_blocks
    if critic.kind == "none":
        return None
    for name in ("capacity", "batch_size"):
        require(
            critic[name] % blocks == 0,
            f"critic.{name}",
            critic[name],
            f"a multiple of rollout.num_blocks={blocks}",
        )
    require(
        critic.capacity // blocks >= rows,
        "critic.capacity",
        critic.capacity,
        f"at least {rows * blocks}: {rows} episodes can settle per tick and block",
    )
    try:
        if critic.kind == "head":
            network = head_critic(spec.layout, policy.hidden, hidden_size=hidden_size)
        else:
            network = decoder_critic(
                spec.layout,
                vocabulary_size=spec.vocabulary_size,
                hidden_size=critic.hidden_size,
                num_layers=critic.num_layers,
                num_heads=critic.num_heads,
                sees=critic.sees,
            )
        return CriticSettings(
            network=network,
            num_stages=spec.layout.num_stages,
            capacity=critic.capacity // blocks,
            batch_size=critic.batch_size // blocks,
            steps=critic.steps,
            learning_rate=critic.learning_rate,
        )
    except ValueError as error:
        raise ValueError(f"critic.{error}") from error
