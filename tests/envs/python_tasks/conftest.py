"""A few families, a tokenizer made of their programs, and a pool that knows them."""

import pytest
from known_programs import KnownPrograms, sandbox_of

from agentic_grpo.envs.python_tasks import families
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.environment import PythonTasks
from agentic_grpo.texts import load_tokenizer, open_chat

CHOSEN = ("add", "count_letter", "fibonacci", "sum_of_multiples_to")


@pytest.fixture(scope="package")
def corpus():
    programs = [problem.reference for problem in families.generate()]
    return ["\n\n".join(programs[i::7]) + "\n\n\n" for i in range(7)] * 2


@pytest.fixture(scope="package")
def tokenizer(corpus, tmp_path_factory):
    pytest.importorskip("tokenizers", reason="an extra: llm")
    import tiny_tokenizers

    folder = tmp_path_factory.mktemp("tokenizer")
    content = tiny_tokenizers.train(corpus=corpus, size=700)
    tiny_tokenizers.write_folder(
        folder, content, generation_config={"eos_token_id": [2]}
    )
    return load_tokenizer(folder)


@pytest.fixture(scope="package")
def chat(tokenizer):
    return open_chat(tokenizer, "chatml")


@pytest.fixture(scope="package")
def problems():
    return families.generate(CHOSEN)


@pytest.fixture
def pool(problems):
    return KnownPrograms(problems)


@pytest.fixture
def make(problems, tokenizer, pool):
    """``make(stages=("code", "debug"))`` -> PythonTasks; other fields of the config."""

    def tasks(*, chosen=problems, chat=None, pad_token=None, rows=None, **fields):
        return PythonTasks(
            chosen,
            PythonTasksConfig(**fields),
            tokenizer=tokenizer,
            sandbox=sandbox_of(pool),
            chat=chat,
            pad_token=pad_token,
            vocabulary_size=rows,
        )

    return tasks
