"""``python -m agentic_grpo.envs.code_execution``: the machine's command line."""

import sys

from agentic_grpo.envs.code_execution.vm import command_line

if __name__ == "__main__":
    sys.exit(command_line.main())
