"""Extension points by name: built-in classes, and those that installed packages add.

A package adds a kernel, a sampler, a code generator, a measurer or a kind of device by an entry
point of the group, in its ``pyproject.toml``::

    [project.entry-points."hvxtune.samplers"]
    annealing = "my_package.annealing:Annealing"

Nothing is imported before it is asked for by name, and a built-in name is found without reading
the metadata of installed packages.

Names may also belong to a family, such as ``pipeline:DIGEST`` for uploads: :func:`add_family` says
who finds those, so that a room below need not know of the one above that does.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tuner.errors import ToolchainError, UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_FAMILIES: dict[str, dict[str, str]] = {}
"""By group: the beginning of a family's names, and ``module:attribute`` of who finds them."""


def add_family(group: str, prefix: str, place: str) -> None:
    """Names of ``group`` that begin with ``prefix`` are found by an instance of the class at
    ``place``, ``module:attribute``, which is imported when the first of them is asked for."""
    _FAMILIES.setdefault(group, {})[prefix] = place


class Registry(Generic[T]):
    """The classes of one extension point by name, built-in ones first.

    ``kind`` is the word for one in messages (``sampler``), ``group`` its group of entry points, and
    ``built_in`` maps names to ``module:attribute``. ``base`` is the abstract class that every entry
    inherits. ``choose_with`` says how to choose another, in the message on an unknown name.
    ``variable`` is an environment variable that adds classes that are not installed, as
    comma-separated ``name=module:attribute`` pairs; they come before others of their name. Safe for
    several threads.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, str],
        base: type[T],
        *,
        choose_with: str = "",
        variable: str = "",
    ) -> None:
        self.kind = kind
        self.group = group
        self._built_in = dict(built_in)
        self._base = base
        self._choose_with = choose_with
        self._variable = variable
        self._found: dict[str, type[T]] = {}
        self._opened: dict[str, Any] = {}

    def names(self) -> list[str]:
        """All names: built-in ones in the order of the registry, then installed ones sorted."""
        return list(dict.fromkeys((*self._built_in, *self._installed, *self._extra())))

    def added(self) -> dict[str, str]:
        """The names that installed packages add, each with its package."""
        return {name: _packages(points) for name, points in self._installed.items()}

    def family_of(self, name: str) -> Any:
        """An instance of the class that finds the family of ``name``; ``None`` without one."""
        for prefix in _FAMILIES.get(self.group, ()):
            if name.startswith(prefix):
                return self._family(prefix)
        return None

    def families(self) -> list[Any]:
        """The same for all families of the group."""
        return [self._family(prefix) for prefix in _FAMILIES.get(self.group, ())]

    def _family(self, prefix: str) -> Any:
        if prefix not in self._opened:
            self._opened[prefix] = cast("Any", _attribute(_FAMILIES[self.group][prefix]))()
        return self._opened[prefix]

    def find(self, name: str) -> type[T]:
        """The class called ``name``.

        Raises ``UserError`` with the accepted names if no class has that name, and
        ``ToolchainError`` naming the package if an installed one cannot be loaded or does not
        inherit ``base``.
        """
        if self._variable:
            extra = self._extra()
            if name in extra:
                return self._loaded_extra(name, extra[name])
        if name in self._built_in:
            # Best-queries find the generators of their schedules: import_module takes longer.
            if name not in self._found:
                self._found[name] = cast("type[T]", _attribute(self._built_in[name]))
            return self._found[name]
        self.require(name)
        return self._loaded(name)

    def require(self, name: str) -> None:
        """Raises ``UserError`` with the accepted names if no class is called ``name``."""
        if name in self._built_in or name in self._extra() or name in self._installed:
            return
        names = self.names()
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise UserError(
            f"unknown {self.kind} '{name}'",
            accepted=", ".join(names),
            next_step=hint or self._choose_with,
        )

    def _extra(self) -> dict[str, str]:
        text = os.environ.get(self._variable, "") if self._variable else ""
        pairs = [item.partition("=") for item in text.split(",") if item.strip()]
        for name, _, place in pairs:
            if not name.strip().isidentifier() or ":" not in place:
                raise UserError(
                    f"{self._variable}={text} cannot be read",
                    accepted="name=module:class, separated by commas",
                )
        return {name.strip(): place.strip() for name, _, place in pairs}

    def _loaded_extra(self, name: str, place: str) -> type[T]:
        try:
            return cast("type[T]", _attribute(place))
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"{self.kind} '{name}' cannot be loaded from {place}: {error}",
                next_step=f"correct {self._variable}",
            ) from None

    @cached_property
    def _installed(self) -> dict[str, tuple[EntryPoint, ...]]:
        """Entry points by name, without those that would replace a built-in class. Several of one
        name are refused when it is asked for."""
        from importlib.metadata import entry_points  # late: it takes longer than a whole look-up

        found: dict[str, tuple[EntryPoint, ...]] = {}
        for point in sorted(entry_points(group=self.group), key=lambda one: one.name):
            if point.name not in self._built_in:
                found[point.name] = (*found.get(point.name, ()), point)
        return found

    def _loaded(self, name: str) -> type[T]:
        points = self._installed[name]
        packages = _packages(points)
        if len({point.value for point in points}) > 1:
            raise ToolchainError(
                f"{self.kind} '{name}' is defined by {packages}",
                next_step="uninstall one of them",
            )
        try:
            found = points[0].load()
        except Exception as error:  # noqa: BLE001 - code of others, as it loads
            raise self._broken(name, packages, f"{type(error).__name__}: {error}") from None
        if not (isinstance(found, type) and issubclass(found, self._base)):
            raise self._broken(
                name, packages, f"{points[0].value} is not a {self._base.__name__} class"
            )
        return found

    def _broken(self, name: str, package: str, why: str) -> ToolchainError:
        return ToolchainError(
            f"{self.kind} '{name}' of {package} cannot be loaded: {why}",
            next_step=f"upgrade or uninstall {package}",
        )


def _attribute(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _packages(points: Iterable[EntryPoint]) -> str:
    return " and ".join(one.dist.name if one.dist is not None else one.value for one in points)
