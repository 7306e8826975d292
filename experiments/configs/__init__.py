"""The configs: an experiment is a file; its docstring tells the command."""
