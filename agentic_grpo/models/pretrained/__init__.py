"""Published weights in and out: Hugging Face folders, and GGUF files."""

from agentic_grpo.models.pretrained.exporting import export_pretrained
from agentic_grpo.models.pretrained.loading import (
    Pretrained,
    load_pretrained,
    open_pretrained,
)

__all__ = ["Pretrained", "export_pretrained", "load_pretrained", "open_pretrained"]
