"""Runs programs that nobody has read, and says what they answered.

A warm worker, started by exec, forks one child per job; the child shuts everything
behind itself (`walls`), runs the program on the inputs and sends its *outputs* as plain
data. What was expected never enters: the host compares (`values.equal`, `judging`).

    with pool.Pool(2) as programs:
        (result,) = programs.run([
            jobs.Calls(program="def f(x): return x + 1", entry="f", arguments=[(1,)])
        ])
    judging.judge(result, [2]).kind                     # Kind.RIGHT

Standard library only; it imports nothing of ours, and Linux alone has what it needs.
``python -m agentic_grpo.sandbox`` says which walls stand on a machine and sets the
hostile programs of `attacks` on them.

**What it is not.** It keeps programs of a language model under training from hurting
the machine and from talking the judge over. It shares the kernel with them: a fault of
the kernel in one of the two dozen system calls that are allowed (`filters`), or of the
processor (side channels), is outside. For programs of hostile strangers put the whole
training job into a virtual machine. It does not hide the time, the version of Python or
the harness from a program, and a program is free to answer anything: an answer is a
claim, and only comparing it outside makes it right.
"""
