"""The digest of a kernel's source: code that changed without a new version is another workload.

It covers the kernel's module and the modules of its family that this imports (those in its folder,
and those in this one). The contract all kernels inherit (``kernel.py`` and its parts) has no
algorithm, and is left out.

Two sources have the same digest if they differ only in what cannot matter:

- comments, layout and docstrings;
- annotations, except those of class fields and of functions with a decorator that may read them;
- files and their names: a module may move, and the way it is imported may change;
- the version of Python: nodes are written by name without empty fields, not by ``ast.dump``.

Everything else makes another digest: constants (texts for people included), operators, defaults,
names, the order of statements. A name that an import binds stands for what it was imported from:
for a module of the family its content, for others of hvxtune their last name alone (``Kernel``,
wherever it lives), and for other packages their full name.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuner.space.syntax import parse_module

_OWN_FAMILY = "tuner.kernels"
_OWN_ROOT = _OWN_FAMILY.partition(".")[0]
_HERE = Path(__file__).parent
_CONTRACT = frozenset(
    _HERE / name for name in ("kernel.py", "derived.py", "shapes.py", "sources.py", "__init__.py")
)
_DIGITS = 16
_LAYOUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of nodes that say how something is written, or follow from where it stands."""
_PLAIN_DECORATORS = frozenset(
    {"abstractmethod", "cache", "cached_property", "classmethod", "lru_cache", "override"}
    | {"property", "staticmethod"}
)
"""None of them reads annotations."""
_NAME = re.compile("\0([^\0]*)\0")
"""A name in a form: strings are written with escapes, so nothing else has this character."""


def source_digest(kernel: type) -> str:
    """Names the code of the class ``kernel``; empty if no file holds it (a class typed in).

    Files are read once a process, when the kernel is loaded: the digest names what is loaded, and
    not what was edited since.
    """
    return _digest_of(kernel)


@cache
def _digest_of(kernel: type) -> str:
    modules = [base.__module__ for base in kernel.__mro__ if _is_code_of_kernels(base)]
    waiting = [(name, path) for name in modules if (path := _file_of(name)) is not None]
    if not waiting or waiting[0][0] != kernel.__module__:
        return ""
    families = {name.rpartition(".")[0]: path.parent for name, path in waiting}
    families.setdefault(_OWN_FAMILY, _HERE)
    found: dict[Path, _Source] = {}
    while waiting:
        name, path = waiting.pop()
        if path not in found and path not in _CONTRACT:
            found[path] = _source_of(path, name)
            waiting += found[path].family_modules(families)
    parts = [source.canonical(families) for source in found.values()]
    return _digest("\0".join(sorted(map(_digest, parts))))[:_DIGITS]


def canonical_python(text: str | bytes) -> str:
    """The code of a module without what cannot matter, the same in every version of Python."""
    return _named(_written(_Stripped().visit(parse_module(text))), {})


@dataclass(frozen=True)
class _Source:
    """A module: its form, in which names are marked, and what the names that imports bind, anywhere
    in it, were imported from."""

    form: str
    imports: Mapping[str, str]

    def family_modules(self, families: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
        """The modules of ``families`` that it imports, by name."""
        for origins in self.imports.values():
            for origin in origins.split("|"):
                for name in (origin, origin.rpartition(".")[0]):
                    if (path := _of_family(name, families)) is not None:
                        yield name, path

    def canonical(self, families: Mapping[str, Path]) -> str:
        """The form, in which the names that imports bind stand for what they are."""
        bound = {
            name: "|".join(_meaning(origin, families) for origin in origins.split("|"))
            for name, origins in self.imports.items()
        }
        return _named(self.form, bound)


@cache
def _source_of(path: Path, module: str) -> _Source:
    tree = parse_module(path.read_bytes())
    imports: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        for name, origin in _bound_by(node, module):
            if origin not in imports.setdefault(name, []):
                imports[name].append(origin)
    form = _written(_Stripped().visit(tree))
    return _Source(form, {name: "|".join(origins) for name, origins in imports.items()})


def _bound_by(node: ast.AST, module: str) -> Iterator[tuple[str, str]]:
    """The names that a node of ``module`` binds if it is an import, with what they are."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name, alias.name
            if not alias.asname:
                top = alias.name.partition(".")[0]
                yield top, top
    elif isinstance(node, ast.ImportFrom):
        above = module.split(".")[: -node.level] if node.level else []
        base = [*above, *([node.module] if node.module else [])]
        for alias in node.names:
            yield alias.asname or alias.name, ".".join([*base, alias.name])


def _meaning(origin: str, families: Mapping[str, Path]) -> str:
    """A text that stands for the module or name ``origin``."""
    module, _, name = origin.rpartition(".")
    if (path := _of_family(origin, families)) is not None and path not in _CONTRACT:
        return f"<{_own_digest(path, origin)}>"
    if (path := _of_family(module, families)) is not None and path not in _CONTRACT:
        return f"<{_own_digest(path, module)}>.{name}"
    return f"<{_OWN_ROOT}>.{name}" if origin.partition(".")[0] == _OWN_ROOT else f"<{origin}>"


@cache
def _own_digest(path: Path, module: str) -> str:
    """Of a module by itself, whatever its imports stand for: modules may import each other."""
    source = _source_of(path, module)
    return _digest(_named(source.form, dict.fromkeys(source.imports, "<import>")))


def _of_family(name: str, families: Mapping[str, Path]) -> Path | None:
    """The file of the module ``name``, if it is one of a family."""
    for family, folder in families.items():
        rest = name.removeprefix(f"{family}.") if family else name
        if not rest or (rest == name and (family or "." in name)):
            continue
        place = folder.joinpath(*rest.split("."))
        for found in (place.with_suffix(".py"), place / "__init__.py"):
            if found.is_file():
                return found
    return None


class _Stripped(ast.NodeTransformer):
    """Takes out what cannot matter: docstrings, imports, annotations that nothing reads."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        # Docstrings, and the texts below constants: values that nothing uses.
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        return None if for_types and not node.orelse else self.generic_visit(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._with_plain_values(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # Other annotations may be fields: of dataclasses, named tuples and what inherits them.
        return self._with_plain_values(node, ("ClassVar", "Final"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        names = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
        if {name.rpartition(".")[2] for name in names} <= _PLAIN_DECORATORS:
            node.returns = None
            for arg in ast.walk(node.args):
                if isinstance(arg, ast.arg):
                    arg.annotation = None
        return self._with_plain_values(node)

    def _with_plain_values(
        self,
        node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        kinds: tuple[str, ...] = ("",),
    ) -> ast.AST:
        """``node`` with annotated assignments of these ``kinds`` as plain ones, or none at all."""
        body: list[ast.stmt] = []
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and ast.unparse(one.annotation).startswith(kinds):
                body += [ast.Assign([one.target], one.value)] if one.value is not None else []
            else:
                body.append(one)
        node.body = body
        return self.generic_visit(node)


def _written(node: object) -> str:
    """A node as text: its name and its fields, names marked. Fields that are empty or say how it is
    written are left out: versions of Python add such, and differ in how they print nodes."""
    if isinstance(node, list):
        return "[" + ",".join(map(_written, node)) + "]"
    if isinstance(node, ast.Name):
        return f"\0{node.id}\0"
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__}:{node!r}"
    fields = []
    for name, value in ast.iter_fields(node):
        constant = isinstance(node, ast.Constant) and name == "value"
        if name not in _LAYOUT and (constant or (value is not None and value != [])):
            fields.append(f"{name}={_written(value)}")
    return f"{type(node).__name__}({';'.join(fields)})"


def _named(form: str, bound: Mapping[str, str]) -> str:
    """A form with its marked names as they are, or as what they are ``bound`` to."""
    return _NAME.sub(lambda name: bound.get(name[1], repr(name[1])), form)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_code_of_kernels(base: type) -> bool:
    module = base.__module__
    if module.partition(".")[0] == _OWN_ROOT:
        return module.startswith(f"{_OWN_FAMILY}.") and _file_of(module) not in _CONTRACT
    return module not in sys.stdlib_module_names


def _file_of(module: str) -> Path | None:
    found = getattr(sys.modules.get(module), "__file__", None)
    return Path(found) if found is not None and found.endswith(".py") else None
