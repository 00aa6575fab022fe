"""Two threads may parse at once, whatever the garbage collector does meanwhile."""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tuner.kernels import sources
from tuner.space.syntax import parse_expression, parse_module


@pytest.fixture
def _giving_way() -> Iterator[None]:
    """The collector comes often, and lets other threads run, as that of a Dask worker does."""

    def give_way(phase: str, info: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("_giving_way")
def test_threads_parse_side_by_side() -> None:
    text = inspect.getsource(sources)
    with ThreadPoolExecutor(4) as threads:
        modules = [threads.submit(parse_module, text) for _ in range(8)]
        sums = [threads.submit(parse_expression, "+".join("abcdefgh")) for _ in range(8)]
        assert all(len(each.result().body) > 10 for each in modules)
        assert all(each.result().body for each in sums)


@pytest.mark.parametrize("text", ["1 +", "a; b", "x = 1"])
def test_what_is_no_expression_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        parse_expression(text)
