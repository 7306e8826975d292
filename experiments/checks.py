"""How a config is refused: the field, its value, the rule, and the nearest name."""

import difflib


def require(condition, field, value, rule) -> None:
    """Raises a ValueError unless the condition holds."""
    if not condition:
        raise ValueError(f"{field}={value!r} must be {rule}")


def choose(field, name, table):
    """``table[name]``, or a ValueError that lists the names and the nearest one."""
    if name in table:
        return table[name]
    nearest = difflib.get_close_matches(str(name), table, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"{field}={name!r} must be one of {', '.join(table)}{hint}")
