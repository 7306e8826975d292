"""A publisher's chat template, rendered where it can reach nothing of Python."""

import dataclasses
import functools
import json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """A template in Jinja, as published in a folder or a GGUF file.

    It is code of the publisher: it sees the messages and what is given here, no
    attribute that leads elsewhere, and no clock, so that a prompt is the same tomorrow.
    How long it computes is not bounded.

    Attributes:
      text: of the template.
      variables: (name, value) pairs that it may read, ("enable_thinking", False).
    """

    text: str
    variables: tuple = ()

    def __call__(self, messages, *, opened: bool) -> str:
        """The conversation as text; ``opened``: the assistant's turn begins.

        Raises:
          ValueError: the template is no Jinja, or refuses the messages.
          ImportError: Jinja is not installed.
        """
        try:
            return self._compiled.render(
                messages=messages, add_generation_prompt=opened, **dict(self.variables)
            )
        except ImportError as error:
            raise ImportError(
                "a published template needs jinja2: pip install 'agentic_grpo[llm]'"
            ) from error
        except Exception as error:  # it is not our code, and may fail in any way
            raise ValueError(f"the chat template refuses: {error}") from error

    @functools.cached_property
    def _compiled(self):
        import jinja2.ext
        import jinja2.sandbox

        def raise_exception(message):
            raise jinja2.TemplateError(message)

        class Namespace(jinja2.utils.Namespace):
            def __setitem__(self, name, value):
                if name.startswith("_"):
                    raise jinja2.TemplateError(f"{name} must not begin with _")
                super().__setitem__(name, value)

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        # The filter of Jinja escapes what HTML would misread.
        environment.filters["tojson"] = functools.partial(
            json.dumps, ensure_ascii=False
        )
        environment.globals = {
            "range": environment.globals["range"],  # bounded
            "namespace": Namespace,
            "raise_exception": raise_exception,
        }
        return environment.from_string(self.text)
