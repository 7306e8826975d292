"""An environment and a model as somebody brings them, to be named by flags."""

import toy_environment as toy

from agentic_grpo.models.policy import decoder_policy
from agentic_grpo.models.transformer import Transformer, TransformerConfig


def make(**latencies):
    return toy.ToyEnvironment(**latencies)


def make_with_agent():
    return toy.ToyEnvironment(), toy.ToyAgent()


def model(spec, hidden_size=8):
    config = TransformerConfig(
        vocabulary_size=spec.vocabulary_size,
        num_layers=1,
        hidden_size=hidden_size,
        num_heads=1,
        num_kv_heads=1,
        head_size=8,
        mlp_size=8,
    )
    return decoder_policy(
        Transformer(config),
        spec.layout,
        end_tokens=spec.end_tokens,
        pad_token=spec.pad_token,
    )


nothing = 3
