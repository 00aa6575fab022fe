"""References of packages: what decides which outputs are right."""

from __future__ import annotations

import contextlib
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tuner.errors import UserError
from tuner.kernels.kernel import Array, WorkCounts
from tuner.machine.whole_files import write_whole
from tuner.packages.files import Package
from tuner.packages.manifest import GoldenReference, NumpyReference
from tuner.packages.python_code import PythonFailedError, reference_outputs
from tuner.paths import cached
from tuner.problem.buffers import BufferSpec

_FOLDER = "package-references"
_MOST_FILES = 128


class Reference(ABC):
    """Gives the right outputs for inputs. It holds no state but its package."""

    @abstractmethod
    def outputs(
        self,
        values: Mapping[str, int],
        specs: Sequence[BufferSpec],
        calls: Sequence[Sequence[Array]],
    ) -> list[list[Array]]:
        """The outputs for the inputs of each call. ``values`` are parameters and scalars, ``specs``
        the buffers of a call. ``UserError`` if the package gives none."""

    def inputs(self, specs: Sequence[BufferSpec]) -> dict[str, list[Array]]:
        """The only inputs that it has outputs for, by name; empty for one that takes any."""
        return {}

    def work(self, specs: Sequence[BufferSpec]) -> WorkCounts | None:
        """What a call with these buffers asks for at least; ``None`` where that is not known."""
        return None


class NumpyFunction(Reference):
    """A function of the package, run in a contained process; outputs are kept in the cache."""

    def __init__(self, package: Package, table: NumpyReference) -> None:
        self._table = table
        self._source = package.files[table.file]

    def outputs(
        self,
        values: Mapping[str, int],
        specs: Sequence[BufferSpec],
        calls: Sequence[Sequence[Array]],
    ) -> list[list[Array]]:
        key = hashlib.sha256(repr((self._source, self._table, values, specs)).encode())
        for array in (array for call in calls for array in call):
            key.update(np.ascontiguousarray(array).data)
        path = cached(_FOLDER) / key.hexdigest()
        outputs = [spec for spec in specs if spec.role == "output"]
        with contextlib.suppress(OSError, ValueError):
            found = _unpacked(path.read_bytes(), outputs, len(calls))
            os.utime(path)
            return found
        name, function = self._table.file, self._table.function
        try:
            made = reference_outputs(name, function, self._source, values, specs, calls)
        except PythonFailedError as error:
            raise UserError(
                f"{name}: the reference fails: {error}",
                accepted=f"def {function}({', '.join(self._named(values, specs))}), which returns "
                f"{' and '.join(spec.name for spec in outputs)} in NumPy",
                next_step=f"change {name}",
            ) from None
        with contextlib.suppress(OSError):  # a full disk: computed again the next time
            write_whole(path, b"".join(array.tobytes() for call in made for array in call))
            _sweep()
        return made

    def _named(self, values: Mapping[str, int], specs: Sequence[BufferSpec]) -> list[str]:
        return [*(spec.name for spec in specs if spec.role == "input"), *values]


class GoldenFiles(Reference):
    """Outputs that lie in the package beside their inputs, for the parameters by default."""

    def __init__(self, package: Package, table: GoldenReference) -> None:
        self._folders = table.folders
        self._files = package.files

    def inputs(self, specs: Sequence[BufferSpec]) -> dict[str, list[Array]]:
        """Those of each folder."""
        return {f"golden {at}": self._arrays(at, specs, "input") for at in self._folders}

    def outputs(
        self,
        values: Mapping[str, int],
        specs: Sequence[BufferSpec],
        calls: Sequence[Sequence[Array]],
    ) -> list[list[Array]]:
        found = {
            b"".join(array.tobytes() for array in inputs): self._arrays(at, specs, "output")
            for at, inputs in zip(self._folders, self.inputs(specs).values(), strict=True)
        }
        return [found[b"".join(array.tobytes() for array in inputs)] for inputs in calls]

    def _arrays(self, folder: str, specs: Sequence[BufferSpec], role: str) -> list[Array]:
        arrays = []
        for spec in specs:
            if spec.role == role:
                name = f"{folder}/{spec.name}.bin"
                data = self._files[name]
                if len(data) != spec.payload_bytes:
                    raise UserError(
                        f"{name} has {len(data)} bytes",
                        accepted=f"{spec.payload_bytes}, for {spec.dtype}{list(spec.shape)}",
                        next_step="golden files are for the parameters by default: leave -p out",
                    )
                arrays.append(np.frombuffer(data, spec.dtype).reshape(spec.shape).copy())
        return arrays


class GeneratorAlgorithm(Reference):
    """The algorithm of the package's Generator, evaluated as that of an upload is."""

    def __init__(self, package: Package) -> None:
        self._package = package

    def outputs(
        self,
        values: Mapping[str, int],
        specs: Sequence[BufferSpec],
        calls: Sequence[Sequence[Array]],
    ) -> list[list[Array]]:
        from tuner.packages.unscheduled import algorithm_of

        return algorithm_of(self._package).references(specs, calls)

    def work(self, specs: Sequence[BufferSpec]) -> WorkCounts | None:
        from tuner.packages.unscheduled import algorithm_of

        return algorithm_of(self._package).work(specs)


def _unpacked(data: bytes, outputs: Sequence[BufferSpec], calls: int) -> list[list[Array]]:
    """``ValueError`` if there is not enough of it."""
    found, offset = [], 0
    for _ in range(calls):
        made = []
        for spec in outputs:
            flat = np.frombuffer(data, spec.dtype, prod(spec.shape), offset)
            offset += flat.nbytes
            made.append(flat.reshape(spec.shape).copy())
        found.append(made)
    return found


def _sweep() -> None:
    """Leaves the files that were used last."""
    newest = sorted(cached(_FOLDER).iterdir(), key=lambda path: -path.stat().st_mtime)
    for path in newest[_MOST_FILES:]:
        path.unlink(missing_ok=True)


def reference_of(package: Package) -> Reference:
    """The reference that ``kernel.toml`` names."""
    table = package.manifest.reference
    if isinstance(table, GoldenReference):
        return GoldenFiles(package, table)
    if isinstance(table, NumpyReference):
        return NumpyFunction(package, table)
    return GeneratorAlgorithm(package)
