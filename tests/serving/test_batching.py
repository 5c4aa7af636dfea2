"""Batches and the shares of clients, without a server."""

import asyncio
import threading

import pytest

pytest.importorskip("fastapi", reason="needs the extra `serve`")

from mundap.serving.batching import Lane
from mundap.serving.clients import Clients, who
from mundap.serving.engine import _Cache, cost
from mundap.serving.problems import Busy, TooSlow


class Work:
    """Doubles numbers, and remembers in which batches; the first one waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[tuple[object, list[int]]] = []
        self.go = threading.Event()

    def __call__(self, key, items):
        self.batches.append((key, list(items)))
        self.go.wait(60)
        if -1 in items:
            raise ValueError("no")
        return [2 * item for item in items]


async def begun(work, batches=1):
    """Wait until so many batches are being worked on; what comes then waits."""
    while len(work.batches) < batches:
        await asyncio.sleep(0.01)


async def waiting(lane, count):
    """Wait until so many items wait."""
    while len(lane) < count:
        await asyncio.sleep(0.01)


def run(work, scenario, threads=1, largest=4, waiting=100, cost=lambda key: 1):
    async def main():
        lane = Lane("test", work, threads, largest, waiting, cost)
        try:
            return await scenario(lane)
        finally:
            work.go.set()
            lane.close()

    return asyncio.run(main())


def test_what_arrives_while_a_batch_runs_makes_up_the_next():
    work = Work()

    async def scenario(lane):
        tasks = [asyncio.create_task(lane.do("key", [0], 60))]
        await begun(work)
        tasks += [asyncio.create_task(lane.do("key", [number], 60)) for number in range(1, 7)]
        await waiting(lane, 6)
        work.go.set()
        return await asyncio.gather(*tasks)

    assert run(work, scenario) == [[2 * number] for number in range(7)]
    assert work.batches == [("key", [0]), ("key", [1, 2, 3, 4]), ("key", [5, 6])]


def test_work_of_different_kinds_is_not_mixed_and_keeps_its_turn():
    work = Work()

    async def scenario(lane):
        tasks = [asyncio.create_task(lane.do("a", [0], 60))]
        await begun(work)
        tasks += [asyncio.create_task(lane.do(key, [number], 60)) for number, key in enumerate("abab", 1)]
        await waiting(lane, 4)
        work.go.set()
        return await asyncio.gather(*tasks)

    assert run(work, scenario) == [[0], [2], [4], [6], [8]]
    assert work.batches == [("a", [0]), ("a", [1, 3]), ("b", [2, 4])]


def test_several_threads_share_what_waits():
    work = Work()

    async def scenario(lane):
        tasks = [asyncio.create_task(lane.do("key", [1, 2, 3, 4], 60))]
        await begun(work, 2)
        assert sorted(work.batches) == [("key", [1, 2]), ("key", [3, 4])]
        work.go.set()
        return await asyncio.gather(*tasks)

    assert run(work, scenario, threads=2) == [[2, 4, 6, 8]]


def test_one_that_fails_does_not_take_the_others_with_it():
    work = Work()
    work.go.set()

    async def scenario(lane):
        blocked = asyncio.create_task(lane.do("key", [0], 10))
        tasks = [asyncio.create_task(lane.do("key", [number], 10)) for number in (1, -1, 3)]
        await blocked
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = run(work, scenario)
    assert (first, third) == ([2], [6])
    assert isinstance(second, ValueError)


def test_too_many_are_sent_away_and_too_slow_ones_given_up():
    work = Work()

    async def scenario(lane):
        first = asyncio.create_task(lane.do("key", [1], 60))
        await begun(work)
        slow = asyncio.create_task(lane.do("key", [2, 3], 1))
        await waiting(lane, 2)
        with pytest.raises(Busy):
            await lane.do("key", [4], 10)
        with pytest.raises(TooSlow):
            await slow
        work.go.set()
        assert await first == [2]
        assert await lane.do("key", [5], 10) == [10]

    run(work, scenario, waiting=2)
    assert work.batches == [("key", [1]), ("key", [5])]  # nobody waits for 2 and 3 any more


def test_a_client_has_a_rate_a_burst_and_a_share():
    now = [0.0]
    clients = Clients(rate=2, burst=4, at_once=2, clock=lambda: now[0])
    assert [clients.charge("a") for _ in range(4)] == [0] * 4
    assert clients.charge("a") == pytest.approx(0.5)
    assert clients.charge("b") == 0
    now[0] += 1.0
    assert [clients.charge("a") > 0 for _ in range(3)] == [False, False, True]
    now[0] += 100.0
    assert clients.charge("a", 1000) == 0  # more than a bucket holds takes a full one
    assert clients.charge("a", 1) > 0
    assert [clients.enter("a"), clients.enter("a"), clients.enter("a"), clients.enter("b")] == [True, True, False, True]
    clients.leave("a")
    assert clients.enter("a")


def test_clients_are_forgotten():
    now = [0.0]
    clients = Clients(rate=10, burst=10, at_once=0, clock=lambda: now[0])
    for number in range(10_001):
        clients.charge(str(number))
    now[0] += 5.0
    clients.charge("new")
    assert len(clients._buckets) == 1


def test_an_ipv6_network_is_one_client():
    assert who("2001:db8:1:2:3:4:5:6") == who("2001:db8:1:2::1") != who("2001:db8:1:3::1")
    assert who("192.0.2.1") == "192.0.2.1"
    assert who("testclient") == "testclient"


def test_the_cache_keeps_the_newest_up_to_its_size():
    cache = _Cache(10_000)
    for key in (b"a", b"b", b"c"):
        cache.put(key, b"x" * 4000)
    assert [bool(cache.get(key)) for key in (b"a", b"b", b"c")] == [False, True, True]
    cache.get(b"b")
    cache.put(b"d", b"x" * 4000)
    assert [bool(cache.get(key)) for key in (b"b", b"c", b"d")] == [True, False, True]
    cache.put(b"d", b"new")
    assert (cache.get(b"b"), cache.get(b"d")) == (b"x" * 4000, b"new")
    cache.put(b"e", b"x" * 100_000)
    assert cache.get(b"e") is None
    for number in range(1000):  # nothing is for nothing: the smallest entries are limited too
        cache.put(str(number).encode(), b"")
    assert 1 < len(cache._kept) < 100


def test_clients_take_turns_however_much_one_of_them_asks_for():
    work = Work()

    async def scenario(lane):
        tasks = [
            asyncio.create_task(lane.do("key", list(range(number, number + 10)), 60, "greedy")) for number in (0, 10)
        ]
        await begun(work)
        await waiting(lane, 16)
        tasks.append(asyncio.create_task(lane.do("key", [100], 60, "modest")))
        await waiting(lane, 17)
        work.go.set()
        return await asyncio.gather(*tasks)

    assert run(work, scenario)[2] == [200]
    assert 100 in work.batches[1][1]  # the first batch ran when it came


def test_a_full_queue_has_room_for_who_has_less_than_a_share():
    work = Work()

    async def scenario(lane):
        tasks = [asyncio.create_task(lane.do("key", list(range(10)), 60, "greedy")) for _ in range(2)]
        await begun(work)
        await waiting(lane, 16)
        with pytest.raises(Busy):
            await lane.do("key", [1], 60, "greedy")
        tasks.append(asyncio.create_task(lane.do("key", [100], 60, "modest")))
        await waiting(lane, 17)
        work.go.set()
        return await asyncio.gather(*tasks)

    assert run(work, scenario, waiting=16)[2] == [200]


def test_costly_items_make_small_batches():
    work = Work()
    work.go.set()

    async def scenario(lane):
        await lane.do("dear", list(range(4)), 10)

    run(work, scenario, largest=4, cost=lambda key: 3)
    assert all(len(items) == 1 for _, items in work.batches)


def test_reading_costs_by_the_passages_that_are_read():
    assert [cost(k) for k in (1, 10, 11, 100)] == [1, 1, 2, 10]
    assert [cost(k, rerank=True) for k in (1, 50, 100)] == [5, 5, 10]


def test_a_request_that_brings_files_counts_as_several():
    clients = Clients(rate=0, burst=0, at_once=10)
    assert clients.enter("a", 8)
    assert not clients.enter("a", 8)
    assert clients.enter("a")
    clients.leave("a", 8)
    assert clients.enter("a", 8)
