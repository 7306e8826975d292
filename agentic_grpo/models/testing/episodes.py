"""Episodes as they grow: noise where an environment writes, and a policy's stages."""

import numpy as np


class Episodes:
    """Rows over one layout as they grow, and what was recorded on the way.

    Attributes:
      tokens: int32 [M, T].
      token_mask: bool [M, T].
      log_probs: float32 [M, T]; as recorded, 0 elsewhere.
      action_mask: bool [M, T].
    """

    def __init__(self, spec, num_rows, random):
        """Statements of noise; ``random`` is a NumPy generator."""
        layout = spec.layout
        self.layout, self.spec, self._random = layout, spec, random
        shape = num_rows, layout.num_columns
        self.tokens = np.full(shape, spec.pad_token, np.int32)
        self.token_mask = np.zeros(shape, bool)
        self.log_probs = np.zeros(shape, np.float32)
        self.action_mask = np.zeros(shape, bool)
        self._fill(0, layout.prompt_width)

    def _fill(self, first, width):
        """Noise of the vocabulary on a prefix of some columns."""
        rows = len(self.tokens)
        length = self._random.integers(0, width + 1, size=(rows, 1))
        noise = self._random.integers(self.spec.vocabulary_size, size=(rows, width))
        here = np.arange(width) < length
        columns = slice(first, first + width)
        self.tokens[:, columns] = np.where(here, noise, self.spec.pad_token)
        self.token_mask[:, columns] = here

    def open(self, stage: int, active) -> None:
        """Writes the marker of a stage in the rows [M] that are active."""
        column = self.layout.offsets[stage]
        self.tokens[active, column] = self.layout.stages[stage].marker
        self.token_mask[active, column] = True

    def write(self, stage: int, tokens, mask, log_probs) -> None:
        """What was sampled, and an observation of noise behind it."""
        of_stage = self.layout.stages[stage]
        first, width = self.layout.offsets[stage] + 1, of_stage.action_width
        columns, mask = slice(first, first + width), mask[:, :width]
        self.tokens[:, columns] = np.where(mask, tokens[:, :width], self.spec.pad_token)
        self.log_probs[:, columns] = np.where(mask, log_probs[:, :width], 0.0)
        self.token_mask[:, columns] = self.action_mask[:, columns] = mask
        self._fill(first + width, of_stage.observation_width)
