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
        trials, damages = hostile.run(pool)
    for trial in trials:
        print(_line(trial))
    broken = [trial for trial in trials if not trial.held]
    print(
        f"\n{len(trials)} programs: "
        f"{sum(trial.passed for trial in trials)} passed, "
        f"{sum(trial.escaped for trial in trials)} escaped, "
        f"{sum(trial.outlived for trial in trials)} outlived their limits, "
        f"{len(broken)} did not end as foreseen; "
        f"damage: {'; '.join(damages) or 'none'}."
    )
    return 1 if broken or damages else 0


def _line(trial):
    mark = "held  " if trial.held else "BROKEN"
    result = trial.result
    text = f" ({ascii(result.text)[1:-1][:60]})" if result.text else ""
    return (
        f"{mark} {trial.attack.name:44} {result.seconds_cpu * 1000:6.0f} ms CPU  "
        f"{result.ending.value}{text}"
    )


if __name__ == "__main__":
    sys.exit(main())
