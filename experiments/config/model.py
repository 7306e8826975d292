"""The decoder of a config: of sizes that it names, or one that was published."""

import dataclasses
import functools
import hashlib
import pathlib

from agentic_grpo.errors import Refused
from agentic_grpo.models.adapters import Adapter
from agentic_grpo.models.pretrained import Pretrained, open_pretrained
from agentic_grpo.models.transformer import TransformerConfig
from agentic_grpo.training import bases, paths
from experiments.config.checks import instantiate, require
from experiments.configs import default

#: What a published model says for itself.
SIZES = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_size",
    "mlp_size",
    "tied_embeddings",
)
_TYPES = ("dtype", "layers")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A model that others have trained: a Hugging Face folder, or a GGUF file."""

    path: pathlib.Path
    weights: Pretrained

    def as_base(self) -> bases.Base:
        """What a checkpoint leaves out where nothing trains it."""
        return bases.Base(
            field="model.pretrained",
            place=str(self.path),
            digest=self.digest,
            read=self.weights.read,
        )

    @functools.cached_property
    def digest(self) -> str:
        """A name for its files by their contents; all of them are read."""
        total = hashlib.sha256()
        is_folder = self.path.is_dir()
        for path in sorted(self.path.iterdir()) if is_folder else [self.path]:
            if path.is_file():
                total.update(f"{path.name if is_folder else ''}\n".encode())
                with path.open("rb") as file:
                    total.update(hashlib.file_digest(file, "sha256").digest())
        return total.hexdigest()


def open_published(config) -> Published | None:
    """The model that ``model.pretrained`` names, checked and not read; None of none.

    Raises:
      ValueError: it is missing, damaged, of another family, or contradicts a field.
    """
    model, learner = config.model, config.learner
    if not model.pretrained:
        return None
    path = paths.locate(model.pretrained, "model.pretrained")
    given = {name: model[name] for name in _TYPES}
    try:
        weights = open_pretrained(path, **given)
    except ValueError as error:
        raise ValueError(f"model.pretrained: {error}") from error
    usual = default.get_config().model
    for name in SIZES:
        rule = f"left out: model.pretrained says {getattr(weights.config, name)!r}"
        require(model[name] == usual[name], f"model.{name}", model[name], rule)
    require(
        learner.learning_rate > 0,
        "learner.learning_rate",
        learner.learning_rate,
        "given with model.pretrained: the rate that fits a model by its size was found "
        "for models trained from nothing. 1e-5 is careful",
    )
    return Published(path=path, weights=weights)


def require_elsewhere_fits(config) -> None:
    """Refuses with a model from elsewhere what is about the decoder alone.

    Raises:
      ValueError: names the field, its value and the rule.
    """
    model, learner = config.model, config.learner
    usual = default.get_config().model
    for name in usual:
        rule = f"left out with model.name={model.name!r}: it is the decoder's"
        is_own = name in ("name", "options")
        require(
            is_own or model[name] == usual[name], f"model.{name}", model[name], rule
        )
    for field, value, holds, rule in (
        ("learner.packed_rows", learner.packed_rows, lambda x: x == 0, "0"),
        ("critic.kind", config.critic.kind, lambda x: x != "head", "none or decoder"),
        (
            "learner.learning_rate",
            learner.learning_rate,
            lambda x: x > 0,
            "given: the rate that fits a model by its size is the decoder's",
        ),
    ):
        require(holds(value), field, value, f"{rule} with model.name={model.name!r}")


def transformer_config(config, published, *, vocabulary_size) -> TransformerConfig:
    """The decoder's config; raises a ValueError that names the field."""
    if published is not None:
        return published.weights.config
    fields = {name: config.model[name] for name in (*SIZES, *_TYPES)}
    return instantiate(
        "model", TransformerConfig, {**fields, "vocabulary_size": vocabulary_size}
    )


def adapter(config) -> Adapter | None:
    """What is trained in place of the model's own parameters; None: nothing."""
    model, rate = config.model, config.learner.learning_rate
    try:
        own = Adapter(
            rank=model.adapter_rank or 1,  # what is not used must be legal too
            alpha=model.adapter_alpha,
            targets=tuple(model.adapter_targets),
        )
    except Refused as error:
        raise error.under("model") from error
    if not model.adapter_rank:
        return None
    rule = "given with model.adapter_rank: the rate that fits a model is none of these"
    require(rate > 0, "learner.learning_rate", rate, rule)
    return own
