"""The graph of a network as boxes: a layer each, or several where there are many.

A network of more layers than can be read is drawn with chains of layers folded into one box each,
then with whole blocks (what lies between two places that every path passes), then with chains of
these. Only layers of one colour are folded together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboards.charts.layered import BOX_HEIGHT, BOX_WIDTH, layout
from tuner.records.batch import NetworkLayer
from tuner.records.network_plan import NetworkPlan

MOST_BOXES = 120
MOST_EDGES = 600
COLOURS = 6
HAS_KERNEL, ON_HOST = "has a kernel", "no kernel: the host's"
_MOST_LETTERS = 22


@dataclass(frozen=True)
class Box:
    """A box with its upper left corner in pixels. ``title`` says all of it."""

    x: float
    y: float
    colour: int
    label: str
    sub: str
    title: str


@dataclass(frozen=True)
class NetworkGraph:
    """The drawing, in pixels. ``legend`` names the colours in use; ``layers`` are drawn as fewer
    boxes if there are many."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    legend: tuple[tuple[int, str], ...]
    layers: int
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


def network_graph(layers: Sequence[NetworkLayer], plan: NetworkPlan | None) -> NetworkGraph | None:
    """The drawing, coloured by the units of ``plan``, or by whether a kernel can do the layer.
    ``None`` if the record says nothing of edges, or there is too much to be read."""
    if len(layers) > 1 and not any(layer.reads for layer in layers):
        return None
    words = _words(layers, plan)
    names = [unit.name for unit in plan.units] if plan else [ON_HOST, HAS_KERNEL]
    groups = folded([layer.reads for layer in layers], words)
    if len(groups) > MOST_BOXES:
        return None
    reads = _reads_of_groups([layer.reads for layer in layers], groups)
    if sum(map(len, reads)) > MOST_EDGES:
        return None
    made = layout(reads)
    boxes = tuple(
        _box(
            place.x,
            place.y,
            names.index(words[group[0]]) % COLOURS,
            [layers[position] for position in group],
            words[group[0]],
        )
        for place, group in zip(made.places, groups, strict=True)
    )
    used = set(words)
    legend = tuple((n % COLOURS, name) for n, name in enumerate(names) if name in used)
    return NetworkGraph(
        made.width, made.height, boxes, tuple(made.edges.values()), legend, len(layers)
    )


def _words(layers: Sequence[NetworkLayer], plan: NetworkPlan | None) -> list[str]:
    """The unit of each layer, or whether it has a kernel."""
    if plan is not None:
        return [one.unit for one in plan.layers]
    return [ON_HOST if one.on_host or one.steps is None else HAS_KERNEL for one in layers]


def _box(x: float, y: float, colour: int, layers: Sequence[NetworkLayer], word: str) -> Box:
    first, last = layers[0], layers[-1]
    if len(layers) == 1:
        macs = f", {first.share_of_macs:.1%} of MACs" if first.macs else ""
        return Box(
            x,
            y,
            colour,
            _short(first.name),
            first.operator,
            f"{first.name}: {first.operator}, {word}{macs}",
        )
    share = sum(layer.share_of_macs for layer in layers)
    return Box(
        x,
        y,
        colour,
        f"{len(layers)} layers",
        _short(f"to {last.name}"),
        f"{len(layers)} layers, {first.name} to {last.name}: {word}, {share:.1%} of MACs",
    )


def _short(name: str) -> str:
    """The end of a long name, which tells layers apart."""
    if len(name) <= _MOST_LETTERS:
        return name
    return "\N{HORIZONTAL ELLIPSIS}" + name[1 - _MOST_LETTERS :]


Groups = list[list[int]]


def folded(reads: Sequence[Sequence[int]], words: Sequence[str]) -> Groups:
    """The positions of each box, in an order in which each reads those before it."""
    groups: Groups = [[position] for position in range(len(reads))]
    for fold in (_chains, _blocks, _chains):
        if len(groups) > MOST_BOXES:
            groups = _merged(reads, words, groups, fold)
    return groups


def _merged(
    reads: Sequence[Sequence[int]],
    words: Sequence[str],
    groups: Groups,
    fold: Callable[[Sequence[Sequence[int]], Sequence[str]], Groups],
) -> Groups:
    """``groups`` with those that ``fold`` puts together as one."""
    of_group = [words[group[0]] for group in groups]
    together = fold(_reads_of_groups(reads, groups), of_group)
    merged = [sorted(p for group in own for p in groups[group]) for own in together]
    # A box follows all it reads: chains and blocks do if they go by their last layer.
    return sorted(merged, key=lambda group: group[-1])


def _reads_of_groups(reads: Sequence[Sequence[int]], groups: Groups) -> list[list[int]]:
    group_of = {position: n for n, group in enumerate(groups) for position in group}
    return [
        sorted({group_of[read] for position in group for read in reads[position]} - {n})
        for n, group in enumerate(groups)
    ]


def _chains(reads: Sequence[Sequence[int]], words: Sequence[str]) -> Groups:
    """Boxes that only the next one reads, which reads nothing else."""
    readers = [0] * len(reads)
    for own in reads:
        for read in own:
            readers[read] += 1
    found: Groups = []
    at: dict[int, list[int]] = {}
    for n, own in enumerate(reads):
        if len(own) == 1 and readers[own[0]] == 1 and words[own[0]] == words[n]:
            at[n] = at[own[0]]
            at[n].append(n)
        else:
            at[n] = [n]
            found.append(at[n])
    return found


def _blocks(reads: Sequence[Sequence[int]], words: Sequence[str]) -> Groups:
    """Boxes between two neighbours that every path passes, the second of them included."""
    reach = list(range(len(reads)))  # the last reader of each box
    for n, own in enumerate(reads):
        for read in own:
            reach[read] = n
    found: Groups = []
    block: list[int] = []
    far = 0
    for n in range(len(reads)):
        block.append(n)
        if far <= n:  # nothing before it is read behind it
            alike = len({words[one] for one in block}) == 1
            found += [block] if alike else [[one] for one in block]
            block = []
        far = max(far, reach[n])
    return found + [[one] for one in block]
