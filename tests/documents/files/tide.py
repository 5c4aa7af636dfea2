"""Computes the height of the tide."""


def height(hour):
    """Return metres above the chart datum at an hour."""
    # The period of the moon is a little over twelve hours.
    return hour
