"""The decoder of the contests as transformers has it, with fresh weights."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build(decoder, vocabulary):
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=decoder["hidden_size"],
            num_hidden_layers=decoder["num_layers"],
            num_attention_heads=decoder["num_heads"],
            num_key_value_heads=decoder["num_kv_heads"],
            head_dim=decoder["head_size"],
            intermediate_size=decoder["mlp_size"],
            tie_word_embeddings=True,
            attn_implementation="sdpa",
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
    )
