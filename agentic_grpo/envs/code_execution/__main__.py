"""``python -m agentic_grpo.envs.code_execution``: the machine's command line."""

import sys

from agentic_grpo.envs.code_execution import machine_cli

if __name__ == "__main__":
    sys.exit(machine_cli.main())
