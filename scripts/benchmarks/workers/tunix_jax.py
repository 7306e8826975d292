"""The learner's step and decoding with Tunix: its Llama, its log-probs, its sampler."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import turns
from tunix.generate import sampler as sampler_lib
from tunix.models.llama3 import model as llama
from tunix.rl import common

nnx = llama.nnx  # the Flax that Tunix uses


class Numbers:
    """A tokenizer of texts that are numbers already."""

    def encode(self, text, **_):
        return [int(word) for word in text.split()]

    def decode(self, ids, **_):
        return " ".join(map(str, ids))

    def bos_id(self):
        return 0

    def eos_id(self):
        return -1

    def pad_id(self):
        return 0


def build(decoder, vocabulary):
    return llama.Llama3(
        llama.ModelConfig(
            num_layers=decoder["num_layers"],
            vocab_size=vocabulary,
            embed_dim=decoder["hidden_size"],
            hidden_dim=decoder["mlp_size"],
            num_heads=decoder["num_heads"],
            head_dim=decoder["head_size"],
            num_kv_heads=decoder["num_kv_heads"],
            rope_theta=10_000,
            norm_eps=1e-6,
            weight_tying=True,
        ),
        rngs=nnx.Rngs(0),
    )


def learner(decoder, sizes, vocabulary):
    graph, params = nnx.split(build(decoder, vocabulary))
    rows, trained = sizes["rows"], sizes["trained_columns"]
    shape = rows, sizes["columns"]
    tokens = jax.random.randint(jax.random.key(1), shape, 1, vocabulary)
    prompt, completion = tokens[:, :-trained], tokens[:, -trained:]
    advantage = jnp.linspace(-1.0, 1.0, rows)[:, None]
    behaviour = -jnp.log(float(vocabulary))
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(1e-4, b1=0.9, b2=0.98)
    )

    def loss(params):
        log_probs = common.compute_per_token_logps(
            graph, params, prompt, completion, 0, -1, stop_gradient=False
        )
        ratio = jnp.exp(log_probs - behaviour)
        clipped = jnp.clip(ratio, 0.8, 1.2)
        return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))

    def step(params, state):
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    compiled = jax.jit(step, donate_argnums=(0, 1))
    carry = params, optimizer.init(params)

    def call():
        nonlocal carry
        *carry, value = compiled(*carry)
        return float(value)

    return call


def decoding(decoder, sizes, vocabulary):
    width = sizes["prompt"] + sizes["new_tokens"]
    sampler = sampler_lib.Sampler(
        build(decoder, vocabulary),
        Numbers(),
        sampler_lib.CacheConfig(
            cache_size=width,
            num_layers=decoder["num_layers"],
            num_kv_heads=decoder["num_kv_heads"],
            head_dim=decoder["head_size"],
        ),
    )
    rng = np.random.default_rng(0)
    prompts = [
        " ".join(map(str, rng.integers(1, vocabulary, sizes["prompt"])))
        for _ in range(sizes["decode_rows"])
    ]
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        written = sampler(
            prompts,
            max_generation_steps=sizes["new_tokens"],
            max_prompt_length=sizes["prompt"],
            return_logprobs=True,
            temperature=1.0,
            top_p=1.0,
            seed=calls,
        )
        assert all(len(tokens) == sizes["new_tokens"] for tokens in written.tokens)

    return call


def main():
    options = turns.settings()
    sizes = options["sizes"]
    make = {"learner": learner, "decoding": decoding}[options["work"]]
    turns.serve(make(dict(sizes["decoder"]), sizes, options["vocabulary"]))


main()
