"""Ready objects: knobs choose among files of the package."""

from __future__ import annotations

from tuner.packages.builds.build import FunctionBuild, Making, misfit
from tuner.packages.files import Package, filled, names_of
from tuner.packages.options import ObjectOptions
from tuner.packages.symbols import NotAnObjectError, defined_in


class ObjectBuild(FunctionBuild):
    """The build ``object``."""

    kind = "object"

    def check(self, package: Package) -> None:
        options = _options(package)
        for name in names_of(package.manifest):
            if not name.endswith(".o"):
                continue
            try:
                defined = defined_in(package.files[name])
            except NotAnObjectError as error:
                raise misfit(
                    package, "file", f"{name} is {error}", "relocatable objects (-c) for Hexagon"
                ) from None
            if options.function not in defined:
                raise misfit(
                    package,
                    "function",
                    f"missing symbol: {name} does not define '{options.function}'",
                    ", ".join(defined[:8]) or "nothing is defined there",
                )

    def parts(self, making: Making) -> dict[str, bytes]:
        name = filled(_options(making.package).file, making.values)
        return {"0.o": making.package.files[name], "loopnest": f"ready object {name}\n".encode()}


def _options(package: Package) -> ObjectOptions:
    options = package.manifest.build
    assert isinstance(options, ObjectOptions)  # noqa: S101 - its table is of this kind
    return options
