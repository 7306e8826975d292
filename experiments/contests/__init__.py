"""Contests: a clock, unseen problems, verdicts that are few and late, and a field."""
