"""Functions to write in Python, which Python runs."""
