"""The whole job with TRL's ``GRPOTrainer``: one optimizer step over all episodes.

Every request is one training step: generation, reward, advantages, loss, optimizer. No
token ends a text, so every completion has its full length.
"""

import pathlib
import tempfile

import llama_torch
import torch
import turns
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

PROMPT, NEW_TOKENS, VOCABULARY = 8, 20, 64
WARM_UP = 2


class TakeTurns(TrainerCallback):
    """Waits before every step for a request, and answers after it."""

    def on_step_begin(self, args, state, control, **_):
        self.counts = state.global_step >= WARM_UP
        if self.counts and not turns.wait():
            control.should_training_stop = True
        self.started = turns.now()

    def on_step_end(self, args, state, control, **_):
        if self.counts:
            turns.tell(self.started)


def share_of_even(completion_ids, **_):
    return [sum(t % 2 == 0 for t in ids) / len(ids) for ids in completion_ids]


def tokenizer():
    words = {f"t{index}": index for index in range(VOCABULARY)}
    inner = Tokenizer(WordLevel(words, unk_token="t1"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="t0", eos_token="t0", padding_side="left"
    )


def main():
    options = turns.settings()
    sizes = options["sizes"]
    torch.set_num_threads(options["threads"])
    episodes = sizes["groups"] * sizes["members"]
    prompts = [
        " ".join(f"t{torch.randint(2, VOCABULARY, ()).item()}" for _ in range(PROMPT))
        for _ in range(sizes["groups"] * 1000)
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=llama_torch.build(dict(sizes["small_decoder"]), VOCABULARY),
            reward_funcs=share_of_even,
            args=GRPOConfig(
                output_dir=str(pathlib.Path(folder)),
                per_device_train_batch_size=episodes,
                gradient_accumulation_steps=1,
                num_generations=sizes["members"],
                max_completion_length=NEW_TOKENS,
                generation_kwargs={
                    "min_new_tokens": NEW_TOKENS,
                    "suppress_tokens": [0],
                },
                learning_rate=1e-4,
                beta=0.0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                logging_steps=100_000,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                max_steps=1000,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer(),
            callbacks=[TakeTurns()],
        )
        trainer.train()


main()
