"""Rate limits per client: requests per second, and concurrent requests."""

import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

_FORGET = 10_000  # clients that are remembered


class Clients:
    """A token bucket per client: a request takes a token, and time refills the bucket.

    Args:
        rate: Tokens a second; 0 for no limit.
        burst: What a bucket holds.
        at_once: Requests of a client at the same time; 0 for no limit.
        clock: Seconds, from any start.
    """

    def __init__(self, rate: float, burst: int, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._at_once = at_once
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}
        self._busy: dict[str, int] = {}

    def charge(self, client: str, tokens: int = 1) -> float:
        """Take tokens; returns 0, or how many seconds to wait, and then nothing was taken."""
        if not self._rate:
            return 0.0
        now = self._clock()
        if len(self._buckets) > _FORGET:
            full = self._burst / self._rate
            self._buckets = {name: state for name, state in self._buckets.items() if now - state[1] < full}
        left, then = self._buckets.get(client, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._rate)
        # A request for more than a bucket holds takes a full one: else it could never be made.
        if left < min(tokens, self._burst):
            return (min(tokens, self._burst) - left) / self._rate
        self._buckets[client] = max(0.0, left - tokens), now
        return 0.0

    def enter(self, client: str, weight: int = 1) -> bool:
        """Register the start of a request with its weight; False if the client has too many under way."""
        busy = self._busy.get(client, 0)
        if self._at_once and busy and busy + weight > self._at_once:
            return False
        self._busy[client] = busy + weight
        return True

    def leave(self, client: str, weight: int = 1) -> None:
        """Note that a request ended."""
        self._busy[client] -= weight
        if not self._busy[client]:
            del self._busy[client]


def who(address: str) -> str:
    """A client by its address; with IPv6 by its network, as one household has 2^64 addresses."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:100]  # a proxy's word
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return parsed.exploded[:19]
