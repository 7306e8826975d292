"""From a config to the objects of a run: the only reader of ``ConfigDict``."""
