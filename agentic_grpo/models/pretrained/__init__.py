"""Published weights in and out: Hugging Face folders, and GGUF files."""

from agentic_grpo.models.pretrained.exporting import export_pretrained
from agentic_grpo.models.pretrained.loading import load_pretrained

__all__ = ["export_pretrained", "load_pretrained"]
