"""How good is a run? Metrics, comparisons with significance, reports. How it was made is not known here."""
