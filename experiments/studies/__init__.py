"""Ablations: suites of runs, tuned and compared, and what they say."""
