"""Python tasks: their specification, and the environment that lives on the host.

**World.** A problem (``problem.Problem``) is one function, told by its head and its
docstring. A member writes the function; Python runs it in a sandbox.

**Stages** (``config.stages``), in this order:

==========  ==============================  =========================================
stage       the member writes               reward, and what it reads next
==========  ==============================  =========================================
hypothesis  an expression for what the      skill: 1 if it has the right value and
            first visible call returns      type, else 0; the true value
code        a program                       estimate: share of the visible calls that
                                            are right; the first that is not, with
                                            what it returned (or raised)
debug       another program, or nothing:    the same, of the program that counts
            the last one counts, and the
            member has SUBMITTED
==========  ==============================  =========================================

A stage has no reward where a problem has no visible call. Feedback tells what a call
should have returned only with ``tells_wanted``.

**Verdict.** The share of the hidden calls that the last program answers rightly, each
compared by exact type; of a problem with a checker 1 if it is content, else 0. All
calls share one limit of processor time: what is not answered by then is wrong. A member
that did not submit ends as OUT_OF_STAGES and is judged alike.

**Ends.** A program that raises, dies or takes too long has merely failed calls. If the
sandbox fails, the member ends as FAULT, unrewarded: it leaves its group.

**Text.** The forms are in ``statements``: code that is gone on with, or a conversation.
Any ids whatever may be written. ``state_id`` numbers the visible calls that are right.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from agentic_grpo.envs import host
from agentic_grpo.envs.python_tasks import workflow
from agentic_grpo.envs.python_tasks.asking import Answers
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.judging import Judge, Report, Suite
from agentic_grpo.envs.python_tasks.problem import Problem
from agentic_grpo.envs.python_tasks.protocols import Chat, Sandbox, Tokenizer
from agentic_grpo.envs.python_tasks.showing import show
from agentic_grpo.envs.python_tasks.statements import Completion, Conversation, Form
from agentic_grpo.records import EndReason


class _Waiter(NamedTuple):
    """Who waits for a report: the stage of a work, or its verdict."""

    work: host.Work
    event: type
    end_reason: EndReason


class PythonTasks:
    """Implements ``envs.host.HostEnvironment``; the module is its specification.

    Args:
      problems: what is asked; see ``families`` and ``problem_files``.
      config: the workflow, its widths, and what programs may use.
      tokenizer: makes tokens of our texts, and text of what members write.
      sandbox: where programs run; nobody else polls its pool.
      chat: the form of conversations; None: statements are code, which is gone on with.
      pad_token: fills empty columns; None: the tokenizer's first special token that
        neither ends a text nor opens a stage.
      vocabulary_size: of the model, if that has more rows than there are tokens.

    Attributes:
      config, form: as given, and made of the tokenizer.
      list: the problems, by number.
      spec, problems: see ``HostEnvironment``.
      answers: asks the sandbox; counts what was known already.

    Raises:
      Refused: a problem has no place in the workflow; names it.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        config: PythonTasksConfig,
        *,
        tokenizer: Tokenizer,
        sandbox: Sandbox,
        chat: Chat | None = None,
        pad_token: int | None = None,
        vocabulary_size: int | None = None,
    ):
        self.config, self.list = config, tuple(problems)
        self._tokenizer = tokenizer
        self.form: Form = (
            Completion(tokenizer) if chat is None else Conversation(tokenizer, chat)
        )
        workflow.check(self.list, config)
        self.spec, self.problems = workflow.build(
            self.list,
            config,
            self.form,
            tokenizer,
            pad_token=pad_token,
            vocabulary_size=vocabulary_size,
        )
        self._judge = Judge(config, sandbox)
        self.answers = Answers(self._judge, sandbox.pool, capacity=config.cache_size)
        self._arrived: collections.deque = collections.deque()

    @property
    def num_asked(self) -> int:
        """See ``HostEnvironment``."""
        return self.answers.num_asked

    @property
    def num_known(self) -> int:
        """See ``HostEnvironment``."""
        return self.answers.num_known

    def submit(self, works: Sequence[host.Work]) -> None:
        """See ``HostEnvironment``."""
        for work in works:
            try:
                self._submit(work)
            except Exception as error:  # ours, whatever was written
                logging.error("Work could not be read: %r", error)
                self._arrived.append(_fault(work.ticket))

    def poll(self, timeout: float) -> list:
        """See ``HostEnvironment``."""
        if self._arrived:
            timeout = 0.0
        for waiter, report in self.answers.poll(timeout):
            self._arrived.append(self._arrival(waiter, report))
        taken = list(self._arrived)
        self._arrived.clear()
        return taken

    def spell(self, tokens) -> str:
        """See ``HostEnvironment``."""
        real = [
            token for token in np.ravel(tokens).tolist() if token != self.spec.pad_token
        ]
        return self._tokenizer.decode(real)

    def describe_problem(self, problem: int) -> list[str]:
        """See ``HostEnvironment``."""
        one = self.list[problem]
        lines = [f"problem {one.id}, level {one.level}, {one.split}"]
        if one.reference is not None:
            lines += ["a right program:", *one.reference.rstrip().splitlines()]
        return lines

    def describe_work(self, problem: int, actions) -> list[str]:
        """See ``HostEnvironment``."""
        if not actions:
            return ["nothing has been written"]
        suite, text, _ = self._read(problem, actions)
        question = self._judge.question(suite, problem, self.list[problem], text)
        lines = [f"{suite.value}:", *text.rstrip().splitlines()]
        report = self.answers.known(question.key)
        if report is not None:
            lines.append(
                f"{sum(report.right)} of {len(report.right)} right; {report.told}"
            )
        return lines

    def _read(self, problem, actions):
        """(suite, text, end reason) of the last action."""
        stages, one = self.config.stages, self.list[problem]
        texts = [
            self.form.read(one, name, action, is_first=index == 0)
            for index, (name, action) in enumerate(zip(stages, actions, strict=False))
        ]
        index = len(actions) - 1
        ends = EndReason.RUNNING
        if index == len(stages) - 1:
            ends = EndReason.OUT_OF_STAGES
        if stages[index] == "hypothesis":
            return Suite.PREDICTION, texts[-1], ends
        if stages[index] == "debug" and not texts[-1]:
            ends = EndReason.SUBMITTED
        programs = texts[stages.index("code") :]
        current = next((program for program in reversed(programs) if program), "")
        return Suite.VISIBLE, current, ends

    def _submit(self, work):
        suite, text, ends = self._read(work.problem, work.actions)
        one = self.list[work.problem]
        stage = _Waiter(work, host.StageArrival, ends)
        if suite is Suite.PREDICTION and not text:
            self._arrived.append(self._arrival(stage, _WRONG))
        elif one.visible:
            self._ask(suite, text, stage)
        else:
            self._arrived.append(self._arrival(stage, None))
        if ends != EndReason.RUNNING:
            self._ask(Suite.HIDDEN, text, _Waiter(work, host.VerdictArrival, ends))

    def _ask(self, suite, text, waiter):
        number = waiter.work.problem
        question = self._judge.question(suite, number, self.list[number], text)
        self.answers.ask(question, waiter)

    def _arrival(self, waiter, report):
        """What is answered to a work; ``report`` is None where nothing was asked."""
        work, event, ends = waiter
        seconds = {}
        if report is not None:
            seconds = {
                "seconds_queued": report.seconds_queued,
                "seconds_run": report.seconds_run,
            }
        if event is host.VerdictArrival:
            if report.is_fault:
                return host.VerdictArrival(ticket=work.ticket, is_fault=True)
            return host.VerdictArrival(
                ticket=work.ticket,
                verdict=report.score,
                solved=report.is_right,
                **seconds,
            )
        if report is not None and report.is_fault:
            return _fault(work.ticket)
        return host.StageArrival(
            ticket=work.ticket,
            end_reason=ends,
            reward=None if report is None else report.score,
            observation=self._observe(work, report, ends),
            state_id=0 if report is None else _number_of(report.right),
            **seconds,
        )

    def _observe(self, work, report, ends):
        if ends != EndReason.RUNNING:
            return ()
        index, one = len(work.actions) - 1, self.list[work.problem]
        told = "" if report is None else report.told
        if self.config.stages[index] == "hypothesis":
            told = f"it returns {show(one.visible[0].want)}"
        return workflow.observe(
            self.form,
            self._tokenizer,
            one,
            told,
            work.actions[-1],
            self.config.stages[index + 1],
            width=self.spec.layout.stages[index].observation_width,
        )


#: A hypothesis that says nothing.
_WRONG = Report(is_fault=False, right=(False,))


def _fault(ticket):
    return host.StageArrival(ticket=ticket, end_reason=EndReason.FAULT)


def _number_of(right):
    """Equal for equal outcomes of the visible calls; exact for up to 30 of them."""
    return 1 + int("".join("01"[one] for one in right), 2) % (2**31 - 2)
