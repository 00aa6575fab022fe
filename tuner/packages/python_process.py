"""Python of others, in a process that has nothing but its question, memory and a clock.

Run as ``python -P -m tuner.packages.python_process``: it reads a question from standard input,
gives up everything (:data:`tuner.codegen.confinement.READER`: no files, network, processes), and
only then looks at the package's code. The answer goes to a file that is its standard output; its
exit status says how it went. Modules that code may want are loaded before: none can be later.

The question is a line of JSON, then bytes. Tasks are ``reference`` (a NumPy function of arrays),
``make`` (a function of numbers that returns C or an object), ``schedule`` (one that makes the
schedule of a baseline) and ``render`` (a template).
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tuner.codegen.confinement import READER, Limits, confine

MODULE = "tuner.packages.python_process"
EXIT_REFUSED = 3
"""The code is at fault; the answer says why."""
MODULES = {
    "reference": (
        *("numpy", "numpy.typing", "numpy.lib.stride_tricks", "numpy.fft", "numpy.linalg"),
        *("math", "functools", "itertools", "collections", "dataclasses", "typing", "operator"),
        *("struct", "fractions", "__future__"),
    ),
    "make": (
        *("math", "functools", "itertools", "collections", "dataclasses", "typing", "operator"),
        *("struct", "string", "textwrap", "re", "io", "fractions", "__future__"),
    ),
    "schedule": ("tuner.space", "math", "functools", "itertools", "typing", "__future__"),
    "render": ("jinja2.sandbox", "jinja2.debug", "encodings.unicode_escape"),
}
"""By task: what code may import; it finds no other."""


def main() -> None:
    """Answers one question."""
    question = sys.stdin.buffer.read()
    line, _, data = question.partition(b"\n")
    request = json.loads(line)
    for module in MODULES[request["task"]]:
        import_module(module)
    tasks = {"reference": _reference, "make": _make, "schedule": _schedule, "render": _render}
    task = tasks[request["task"]]
    os.chdir(request["folder"])
    limits = Limits(request["memory_bytes"], request["cpu_s"], request["answer_bytes"])
    confine(READER, Path("."), limits).seal()
    try:
        answer, status = task(request, data), 0
    except BaseException as error:  # noqa: BLE001 - code of others: any of them may come
        answer, status = _told(error, request).encode(errors="replace")[:4000], EXIT_REFUSED
    while answer:
        answer = answer[os.write(1, answer) :]
    os._exit(status)


def _told(error: BaseException, request: dict[str, Any]) -> str:
    """The error with the line of the package's file that it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == request["file"]:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, ImportError | PermissionError):
        usual = ", ".join(m for m in MODULES[request["task"]] if not m.startswith("_"))
        return f"line {line}: {error}; it can import {usual}"
    name = "" if type(error) is ValueError else f"{type(error).__name__}: "
    where = f"line {line}: " if line else ""
    return f"{where}{name}{error}"


def _function(request: dict[str, Any], source: bytes) -> Any:
    scope: dict[str, Any] = {"__name__": "package", "__builtins__": builtins}
    exec(compile(source, request["file"], "exec"), scope)  # noqa: S102 - in a confined process
    name = request["function"]
    if not callable(scope.get(name)):
        raise ValueError(f"it defines no function {name}")
    return scope[name]


def _reference(request: dict[str, Any], data: bytes) -> bytes:
    """The outputs of each call, one behind the other, in order."""
    import numpy as np

    source, data = data[: request["source_bytes"]], data[request["source_bytes"] :]
    function = _function(request, source)
    offset, answer = 0, []
    for _ in range(request["calls"]):
        arrays = {}
        for name, dtype, shape in request["inputs"]:
            flat = np.frombuffer(data, dtype, int(np.prod(shape)), offset)
            offset += flat.nbytes
            arrays[name] = flat.reshape(shape).copy()
        made = function(**arrays, **request["values"])
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        wanted = request["outputs"]
        if len(outputs) != len(wanted):
            raise ValueError(f"it returns {len(outputs)} outputs, kernel.toml has {len(wanted)}")
        for (name, dtype, shape), array in zip(wanted, outputs, strict=True):
            found = np.asarray(array)
            if found.shape != tuple(shape) or found.dtype != np.dtype(dtype):
                raise ValueError(
                    f"its {name} is {found.dtype}{list(found.shape)}, in kernel.toml {dtype}{shape}"
                )
            answer.append(np.ascontiguousarray(found).tobytes())
    return b"".join(answer)


def _make(request: dict[str, Any], source: bytes) -> bytes:
    """``c`` or ``o`` for what it is, then C or an object."""
    made = _function(request, source)(**request["values"])
    if isinstance(made, str):
        return b"c" + made.encode()
    if isinstance(made, bytes):
        return b"o" + made
    raise ValueError(f"it returns {type(made).__name__}, not C (str) or an object (bytes)")


def _schedule(request: dict[str, Any], source: bytes) -> bytes:
    """The directives that the function makes, as a JSON list."""
    from tuner.space import Steps

    steps = Steps()
    _function(request, source)(steps, **request["values"])
    return json.dumps([one.as_dict() for one in steps.directives]).encode()


def _render(request: dict[str, Any], source: bytes) -> bytes:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    name = request["file"]
    try:
        code = made.compile(source.decode(), name=name, filename=name)
        template = jinja2.Template.from_code(made, code, made.make_globals(None))
        return template.render(request["values"]).encode()
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from None


if __name__ == "__main__":
    main()
