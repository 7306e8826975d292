"""Tokens by transformers; run in an environment that has it.

    python transformers_tokens.py FOLDER < QUESTIONS.json > ANSWERS.json

Questions: {"texts": [...], "conversations": [[message, ...], ...]}; answers: the same
with tokens.
"""

import json
import sys

import transformers

if __name__ == "__main__":
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    questions = json.load(sys.stdin)
    answers = {
        "texts": [
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in questions["texts"]
        ],
        "conversations": [
            tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=False
            )
            for messages in questions["conversations"]
        ],
    }
    json.dump(answers, sys.stdout)
