"""Natural loops among packets that ran.

A loop is what an edge back to a packet that dominates it closes (Aho, Lam, Sethi, Ullman,
"Compilers", section 9.6). Edges come from the disassembly: jumps, hardware loops, falling
through. Calls count as returning at once: a callee's loops are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.measure.qemu.disassembly import Decoded

_ROOT = -1
"""Stands before all entries."""


@dataclass(frozen=True)
class Loop:
    """``header`` is the packet through which the loop is entered, ``body`` all its packets,
    those of loops inside it too. ``inside`` is the header of the loop around it."""

    header: int
    body: frozenset[int] = field(repr=False)
    inside: int | None = None


def find_loops(packets: Mapping[int, Decoded]) -> list[Loop]:
    """The loops among ``packets`` (by address), inner ones before those around them."""
    edges = _edges(packets)
    dominators = _Dominators({**edges, _ROOT: _entries(packets, edges)})
    bodies: dict[int, set[int]] = {}
    for source, targets in edges.items():
        for header in targets:
            if dominators.holds(header, source):
                bodies.setdefault(header, {header}).update(
                    _reaching(source, header, dominators.before)
                )
    by_size = sorted(bodies.items(), key=lambda loop: (len(loop[1]), loop[0]))
    return [
        Loop(header, frozenset(body), _around(header, by_size[place + 1 :]))
        for place, (header, body) in enumerate(by_size)
    ]


def _around(header: int, larger: Sequence[tuple[int, set[int]]]) -> int | None:
    """The smallest loop that holds ``header``: natural loops nest or are apart."""
    return next((other for other, body in larger if header in body), None)


def _edges(packets: Mapping[int, Decoded]) -> dict[int, list[int]]:
    """Successors of each packet that ran themselves.

    A hardware loop goes back to where its set-up said. Compilers may lay its end before its
    start, so set-ups are followed along the edges until nothing new comes.
    """
    edges = {
        address: [target for target in _next(address, packet) if target in packets]
        for address, packet in packets.items()
    }
    reaching: dict[int, set[tuple[int, int]]] = {address: set() for address in packets}
    waiting = list(packets)
    while waiting:
        address = waiting.pop()
        flow = packets[address].flow
        for level, start in sorted(reaching[address]):
            if level in flow.loop_ends and start in packets and start not in edges[address]:
                edges[address].append(start)
        set_up = {level for level, _ in flow.loop_starts}
        passing = {start for start in reaching[address] if start[0] not in set_up}
        passing.update(flow.loop_starts)
        for target in edges[address]:
            if not passing <= reaching[target]:
                reaching[target] |= passing
                waiting.append(target)
    return edges


def _next(address: int, packet: Decoded) -> list[int]:
    """Where jumps and falling through lead."""
    falling = [address + packet.size_bytes] if packet.flow.falls_through else []
    return list(dict.fromkeys([*packet.flow.targets, *falling]))


def _entries(packets: Mapping[int, Decoded], edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Packets that control reaches otherwise: by a call, or in ways the text does not show."""
    after = {target for targets in edges.values() for target in targets}
    called = {target for packet in packets.values() for target in packet.flow.calls}
    entries = [address for address in packets if address in called or address not in after]
    reached = set(_reverse_postorder({**edges, _ROOT: entries}, _ROOT))
    for address in sorted(packets):  # loops that only an indirect jump leads to
        if address not in reached:
            entries.append(address)
            reached.update(_reverse_postorder(edges, address))
    return entries


class _Dominators:
    """Which packets every way from the root of ``graph`` to a packet goes through."""

    def __init__(self, graph: Mapping[int, Sequence[int]]) -> None:
        self._order = _reverse_postorder(graph, _ROOT)
        self._rank = {node: rank for rank, node in enumerate(self._order)}
        self.before: dict[int, list[int]] = {node: [] for node in self._order}
        for source in self._order:
            for target in graph[source]:
                self.before[target].append(source)
        self._immediate = self._solve()

    def _solve(self) -> dict[int, int]:
        """Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"."""
        immediate = {_ROOT: _ROOT}
        changed = True
        while changed:
            changed = False
            for node in self._order[1:]:
                known = [source for source in self.before[node] if source in immediate]
                best = known[0]
                for other in known[1:]:
                    best = self._common(best, other, immediate)
                if immediate.get(node) != best:
                    immediate[node] = best
                    changed = True
        return immediate

    def _common(self, a: int, b: int, immediate: Mapping[int, int]) -> int:
        while a != b:
            if self._rank[a] > self._rank[b]:
                a = immediate[a]
            else:
                b = immediate[b]
        return a

    def holds(self, dominator: int, node: int) -> bool:
        """Whether ``dominator`` is ``node`` or lies on every way to it."""
        while node not in (dominator, _ROOT):
            node = self._immediate[node]
        return node == dominator


def _reverse_postorder(graph: Mapping[int, Sequence[int]], root: int) -> list[int]:
    """Nodes reachable from ``root``; without recursion, as bodies are thousands of packets."""
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(graph[root]))]
    while stack:
        node, targets = stack[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            stack.pop()
            order.append(node)
        else:
            seen.add(following)
            stack.append((following, iter(graph[following])))
    return order[::-1]


def _reaching(source: int, header: int, before: Mapping[int, Iterable[int]]) -> set[int]:
    """All packets from which ``source`` is reached without passing ``header``."""
    found = {source}
    waiting = [source]
    while waiting:
        node = waiting.pop()
        if node == header:
            continue
        for earlier in before[node]:
            if earlier not in found:
                found.add(earlier)
                waiting.append(earlier)
    return found
