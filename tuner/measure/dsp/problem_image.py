"""What a phone gets of a problem, and what must come back.

The phone gets the memory image with inputs alone. No expected output ever lies there: a candidate
shares its memory with the harness, and could find it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tuner.measure.cases import cases_of
from tuner.measure.image import Image, image_of
from tuner.measure.poison import Bytes
from tuner.records.candidate import Problem

_BYTES_KEPT = 1 << 29
"""Images of the latest problems are kept up to this size together, the latest one in any case."""


@dataclass(frozen=True)
class ProblemImage:
    """A problem as phones run it."""

    image: Image

    @cached_property
    def content(self) -> bytes:
        """The file the phone gets."""
        return self.image.before.tobytes()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file; its name on the phone."""
        return hashlib.sha256(self.image.before.data).hexdigest()

    @cached_property
    def expected(self) -> str:
        """SHA-256 of all cases' memory after a right run: outputs, inputs and all around them."""
        return hashlib.sha256(self.image.after[self.image.parts_offset :].data).hexdigest()

    @property
    def kept_bytes(self) -> int:
        """Size of what comes back."""
        return int(self.image.after.size) - self.image.parts_offset

    @property
    def case_count(self) -> int:
        """How many cases it has."""
        return len(self.image.cases.cases)

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """Offset and size in bytes of each output in the first case's part."""
        arguments = self.image.cases.cases[0].arguments
        return tuple(
            (start - self.image.parts_offset, argument.layout.span_bytes)
            for argument, start in zip(arguments, self.image.starts[0], strict=True)
            if argument.spec.role == "output"
        )

    @property
    def refusable(self) -> int:
        """Bits of the cases that may be answered with an error."""
        cases = self.image.cases.cases
        return sum(1 << number for number, case in enumerate(cases) if case.may_refuse)

    def difference(self, kept: bytes, refused_cases: int = 0) -> str | None:
        """What is wrong in the memory that came back of the first cases; ``None`` if nothing."""
        returned: Bytes = self.image.after.copy()
        begin = self.image.parts_offset
        returned[begin : begin + len(kept)] = np.frombuffer(kept, np.uint8)
        return self.image.difference(returned, refused_cases)


class ProblemImages:
    """The images of the latest problems, shared by all phones of a process: references take
    longer than most runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: OrderedDict[str, ProblemImage] = OrderedDict()

    def of(self, problem: Problem) -> ProblemImage:
        """The problem's image, made once."""
        with self._lock:
            found = self._images.pop(problem.digest, None)
            if found is None:
                found = ProblemImage(image_of(cases_of(problem), problem.target))
            self._images[problem.digest] = found
            while len(self._images) > 1 and self._kept() > _BYTES_KEPT:
                self._images.popitem(last=False)
            return found

    def _kept(self) -> int:
        return sum(i.image.before.nbytes + i.image.after.nbytes for i in self._images.values())


IMAGES = ProblemImages()
