"""How often: requests by a token, failed authentications by an address. Counted in the memory of
one process, over a window that slides."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

_IPV6_NETWORK_BITS = 64
"""What one customer gets: addresses within are as good as one."""


class Rate:
    """At most ``per_minute`` of something for each key. Safe from several threads."""

    def __init__(self, name: str, per_minute: int) -> None:
        self.per_minute = per_minute
        self._name = name
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def hit(self, key: str, count: int = 1) -> bool:
        """Counts ``count`` for ``key``, unless that is too many; whether it was not."""
        return self._limiter.hit(self._limit, key, cost=count)

    def test(self, key: str) -> bool:
        """Whether one more for ``key`` would not be too many."""
        return self._limiter.test(self._limit, key)

    def headers(self, key: str) -> Mapping[str, str]:
        """For an answer that says it was too many: ``Retry-After``, and the fields of
        draft-ietf-httpapi-ratelimit-headers-10."""
        stats = self._limiter.get_window_stats(self._limit, key)
        wait_s = max(1, math.ceil(stats.reset_time - time.time()))
        return {
            "Retry-After": str(wait_s),
            "RateLimit-Policy": f'"{self._name}";q={self.per_minute};w=60',
            "RateLimit": f'"{self._name}";r={stats.remaining};t={wait_s}',
        }


def network_of(client: str) -> str:
    """What failures of the address ``client`` are counted under."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{address.packed[: _IPV6_NETWORK_BITS // 8].hex(':', 2)}::/{_IPV6_NETWORK_BITS}"
    return str(address)
