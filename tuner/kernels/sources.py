"""The digest of a kernel's source: code that changed without a new version is another workload.

It is made of the kernel's module, of what that imports of its family (the modules in its folder,
and those in this one) and of the kernel's C forms: their bytes, a comment as good as code, because
nothing but the bytes says for certain that a stored object is still that of the code. Not of the
contract all kernels inherit (``kernel.py``), which has no algorithm.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OWN_FAMILY = "tuner.kernels"
_HERE = Path(__file__).parent
_CONTRACT = frozenset({_HERE / "kernel.py", _HERE / "__init__.py", Path(__file__)})
_C_FORMS = "c_forms"
_DIGITS = 16


def source_digest(kernel: type) -> str:
    """Names the code of the class ``kernel``; empty if no file holds it (a class typed in).

    The files are read once a process. To name what is loaded, and not what was edited since, that
    is when the kernel is loaded.
    """
    return _digest_of(kernel)


@cache
def content_of(path: Path) -> bytes:
    """A file of a kernel, as it was when this process first read it: what was digested is what is
    compiled."""
    return path.read_bytes()


@cache
def _digest_of(kernel: type) -> str:
    modules = [base.__module__ for base in kernel.__mro__ if _is_code_of_kernels(base)]
    paths: dict[Path, str] = {}
    waiting = [(module, path) for module in modules if (path := _file_of(module)) is not None]
    if not waiting or waiting[0][0] != kernel.__module__:
        return ""
    families = {_package_of(module): path.parent for module, path in waiting}
    families.setdefault(_OWN_FAMILY, _HERE)
    while waiting:
        module, path = waiting.pop()
        if path not in paths and path not in _CONTRACT:
            paths[path] = module
            waiting += _imported(path, module, families)
    own = next(path for path, module in paths.items() if module == kernel.__module__)
    name = getattr(kernel, "name", "")
    forms = [path for path in (own.parent / _C_FORMS).glob(f"{name}.*") if path.suffix == ".c"]
    key = hashlib.sha256()
    for path in sorted([*paths, *forms], key=lambda path: (path.name, str(path))):
        content = content_of(path)
        key.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return key.hexdigest()[:_DIGITS]


def _is_code_of_kernels(base: type) -> bool:
    module = base.__module__
    return module != f"{_OWN_FAMILY}.kernel" and module not in sys.stdlib_module_names


def _file_of(module: str) -> Path | None:
    found = getattr(sys.modules.get(module), "__file__", None)
    return Path(found) if found is not None and found.endswith(".py") else None


def _package_of(module: str) -> str:
    return module.rpartition(".")[0]


def _imported(path: Path, module: str, families: dict[str, Path]) -> Iterator[tuple[str, Path]]:
    """The modules of ``families`` that the file ``path`` imports, wherever in it, by name."""
    for name in _names_imported(path, module):
        for family, folder in families.items():
            rest = name.removeprefix(f"{family}.") if family else name
            if rest == name and (family or "." in name):
                continue
            place = folder.joinpath(*rest.split("."))
            for found in (place.with_suffix(".py"), place / "__init__.py"):
                if found.is_file():
                    yield name, found


@cache
def _names_imported(path: Path, module: str) -> tuple[str, ...]:
    return tuple(_names_in(ast.parse(content_of(path)), module))


def _names_in(tree: ast.AST, module: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
