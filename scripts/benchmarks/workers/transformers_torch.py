"""The learner's step and decoding with transformers on PyTorch, as TRL does them.

The step scores the completion with ``logits_to_keep`` and TRL's
``selective_log_softmax``, takes the clipped loss, and steps AdamW. Decoding is
``generate`` with the scores kept, from which the log-probs of the tokens are taken.
"""

import llama_torch
import torch
import turns
from trl.trainer.utils import selective_log_softmax


def learner(model, sizes, vocabulary):
    model.train()
    rows, trained = sizes["rows"], sizes["trained_columns"]
    tokens = torch.randint(vocabulary, (rows, sizes["columns"]))
    mask = torch.ones_like(tokens)
    behaviour = torch.full((rows, trained), -torch.tensor(float(vocabulary)).log())
    advantage = torch.linspace(-1.0, 1.0, rows)[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))

    def step():
        logits = model(tokens, attention_mask=mask, logits_to_keep=trained + 1).logits
        log_probs = selective_log_softmax(logits[:, :-1], tokens[:, -trained:])
        ratio = torch.exp(log_probs - behaviour)
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def decoding(model, sizes, vocabulary):
    model.eval()
    prompt = torch.randint(1, vocabulary, (sizes["decode_rows"], sizes["prompt"]))

    @torch.inference_mode()
    def decode():
        written = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=sizes["new_tokens"],
            return_dict_in_generate=True,
            output_scores=True,
        )
        log_probs = model.compute_transition_scores(
            written.sequences, written.scores, normalize_logits=True
        )
        assert log_probs.shape == (sizes["decode_rows"], sizes["new_tokens"])
        return log_probs

    return decode


def main():
    options = turns.settings()
    sizes, vocabulary = options["sizes"], options["vocabulary"]
    torch.set_num_threads(options["threads"])
    model = llama_torch.build(dict(sizes["decoder"]), vocabulary)
    make = {"learner": learner, "decoding": decoding}[options["work"]]
    turns.serve(make(model, sizes, vocabulary))


main()
