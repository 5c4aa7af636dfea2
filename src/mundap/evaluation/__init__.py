"""Metrics, significance tests, comparisons and reports of runs, however those were made."""
