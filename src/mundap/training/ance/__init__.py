"""ANCE: negatives from the whole corpus, found with the model that is being trained.

A trainer and one or more inferencers run side by side and meet only in a folder, see `exchange.py`.
"""
