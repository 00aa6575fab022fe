"""A limit to what a search of a portfolio spends on generators that are behind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from tuner.codegen.portfolio import GENERATOR, MAIN
from tuner.space import Config, Knob, KnobValue, Space

_MOST = 0.25
"""Of the trials, what an alternative may take that is only just behind."""
_FALL = 4
"""And how fast that falls with how far behind it is: at 1.3 times the best it is a tenth."""


class Shares:
    """Counts the trials of each generator of a portfolio, and says which may have more.

    A generator that holds the best result may have any number, and so may the main one. Of one
    that is behind, the share is at most ``_MOST * (best / its own best) ** _FALL`` of all trials;
    one without a result counts as just behind. In a space without a choice of generators, and if
    not ``limited``, everything is allowed.
    """

    def __init__(self, space: Space, *, limited: bool = True) -> None:
        found = (k for k in space.knobs if k.name == GENERATOR and MAIN in k.choices)
        self.knob: Knob | None = next(found, None) if limited else None
        """The choice of generators; ``None`` where nothing is limited."""
        self._proposed: Counter[KnobValue] = Counter()
        self._best: dict[KnobValue, float] = {}

    def proposed(self, config: Mapping[str, KnobValue]) -> None:
        """Notes that ``config`` is, or was, a trial."""
        if self.knob is not None:
            self._proposed[config[GENERATOR]] += 1

    def learned(self, config: Config, figure: float) -> None:
        """Notes that ``config`` came to ``figure``, of which less is better."""
        if self.knob is not None:
            name = config[GENERATOR]
            self._best[name] = min(figure, self._best.get(name, math.inf))

    def allows(self, config: Mapping[str, KnobValue]) -> bool:
        """Whether one more trial of the generator of ``config`` is within its share."""
        if self.knob is None or config[GENERATOR] == MAIN:
            return True
        name = config[GENERATOR]
        best = min(self._best.values(), default=math.inf)
        own = self._best.get(name, best)
        if own == best and name in self._best:
            return True
        behind = best / own if math.isfinite(own) else 1.0
        trials = self._proposed.total() + 1
        return self._proposed[name] + 1 <= max(1.0, _MOST * behind**_FALL * trials)
