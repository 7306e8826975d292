"""Old names of fields: read for one release with a warning, then gone.

A name that changes gets a line here, so that flags in people's scripts, suites and
saved configs go on; CHANGELOG.md lists them.
"""

import warnings
from collections.abc import Mapping
from typing import Any

#: {as it was called in 0.1: as it is called}.
RENAMED = {
    "algorithm.exclude_silent": "algorithm.exclude_zero_variance",
    "algorithm.importance_level": "algorithm.importance_granularity",
    "algorithm.calibrated.fixed_worth": "algorithm.calibrated.fixed_beta",
}


def current(field: str) -> str:
    """The name of a field today; warns where it was an old one."""
    if field not in RENAMED:
        return field
    warnings.warn(
        f"{field!r} is called {RENAMED[field]!r} now; the old name goes with the next "
        "release",
        FutureWarning,
        stacklevel=2,
    )
    return RENAMED[field]


def all_current(values: Mapping[str, Any]) -> dict[str, Any]:
    """{field: value} by the names of today; one warning for each old one."""
    return {current(field): value for field, value in values.items()}
