"""Which walls stand on this machine, and whether they hold.

    python -m agentic_grpo.sandbox

Prints the layers, sets every hostile program on them and ends with 0 only if none of
them passed, escaped, outlived its limits or left anything.
"""

import sys

from agentic_grpo.sandbox import hostile, jobs
from agentic_grpo.sandbox.pool import Pool


def main() -> int:
    try:
        pool = Pool(2)
    except jobs.SandboxUnavailable as error:
        print(f"The sandbox does not start here: {error}")
        return 2
    with pool:
        for layer in pool.layers:
            kind = "required" if layer.required else "extra"
            state = "stands" if layer.standing else "absent"
            print(f"{kind:9} {state:7} {layer.name:20} {layer.detail}")
        print(f"\nSetting {len(hostile.ATTACKS)} hostile programs on them:\n")
        attempts, damages = hostile.run(pool)
    for attempt in attempts:
        print(_line(attempt))
    broken = [attempt for attempt in attempts if not attempt.held]
    print(
        f"\n{len(attempts)} programs: "
        f"{sum(attempt.passed for attempt in attempts)} passed, "
        f"{sum(attempt.escaped for attempt in attempts)} escaped, "
        f"{sum(attempt.outlived for attempt in attempts)} outlived their limits, "
        f"{len(broken)} did not end as foreseen; "
        f"damage: {'; '.join(damages) or 'none'}."
    )
    return 1 if broken or damages else 0


def _line(attempt):
    mark = "held  " if attempt.held else "BROKEN"
    result = attempt.result
    text = f" ({ascii(result.text)[1:-1][:60]})" if result.text else ""
    return (
        f"{mark} {attempt.attack.name:44} {result.seconds_cpu * 1000:6.0f} ms CPU  "
        f"{result.ending.value}{text}"
    )


if __name__ == "__main__":
    sys.exit(main())
