"""What can be wrong with checkpoints: which one, what it is, and what to do."""

from agentic_grpo.training import checkpoint_record


class CheckpointError(RuntimeError):
    """A checkpoint is missing, damaged or not ours; says which, and what to do."""


class DamagedError(CheckpointError):
    """The files of one step are damaged; an older step may still be good."""


def damaged(path, what: str) -> DamagedError:
    return DamagedError(
        f"checkpoint {path} is damaged: {what}. Restore an older step, or this folder "
        "from a copy."
    )


def unreadable(path, item: str, error: Exception) -> DamagedError:
    reason = f"{type(error).__name__}: {str(error)[:200]}"
    return damaged(path, f"its {item} cannot be read ({reason})")


def all_damaged(folder, steps: list[int]) -> CheckpointError:
    return CheckpointError(
        f"{folder}: every checkpoint here is damaged: {steps}. Restore the folder from "
        "a copy, or start again in another one."
    )


def none_is_here(folder) -> CheckpointError:
    return CheckpointError(
        f"{folder} holds no checkpoint. Check the folder, or start the run that fills "
        "it."
    )


def not_here(folder, step: int, steps: list[int]) -> CheckpointError:
    return CheckpointError(f"{folder} holds no step {step}; it holds {steps}.")


def later_one_is_here(folder, latest: int, step: int) -> CheckpointError:
    return CheckpointError(
        f"{folder} already holds step {latest}, later than step {step}. Continue from "
        "it, or use another folder."
    )


def of_another_schema(path, version) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {path}: schema_version is {version}; this program reads "
        f"{checkpoint_record.SCHEMA_VERSION}. Use the release of agentic_grpo that "
        "wrote it, or start again in another folder."
    )


def require_sound(record, path, step: int) -> None:
    """Raises ``CheckpointError`` unless this is the record of the step, unchanged."""
    if not checkpoint_record.is_intact(record):
        raise damaged(path, "its record has changed")
    if record["schema_version"] != checkpoint_record.SCHEMA_VERSION:
        raise of_another_schema(path, record["schema_version"])
    if record.get("step", step) != step:
        raise damaged(path, f"it is a copy of {record['step']}")


def of_another_config(path, others: list[str]) -> CheckpointError:
    """Of another one than the target's: ``others`` says how leaves differ."""
    return CheckpointError(
        f"checkpoint {path} is another configuration's; leaves that differ: "
        f"{len(others)}. {'; '.join(others[:5])}. Use the configuration that it was "
        "saved with, or another folder."
    )


def not_written(folder, error: Exception) -> CheckpointError:
    reason = f"{type(error).__name__}: {str(error)[-300:]}"
    return CheckpointError(
        f"{folder}: the checkpoint cannot be written ({reason}). Older ones are "
        "untouched. Make room, or use another folder."
    )


def taken_away(folder) -> CheckpointError:
    return CheckpointError(
        f"{folder} was moved or deleted while the run went on, so nothing more is "
        "written there. Move it back, and the same command goes on from its newest "
        "checkpoint."
    )
