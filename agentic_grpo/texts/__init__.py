"""Text and tokens: published tokenizers, and the forms of conversations."""

from agentic_grpo.texts.byte_tokens import ByteTokenizer
from agentic_grpo.texts.chat import FORMS, Chat, open_chat
from agentic_grpo.texts.loading import load_tokenizer
from agentic_grpo.texts.tokenizer import Tokenizer

__all__ = [
    "FORMS",
    "ByteTokenizer",
    "Chat",
    "Tokenizer",
    "load_tokenizer",
    "open_chat",
]
