"""Measuring how the product grows: `mundap bench`."""
