"""Names of kernels and problems as people read and type them."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.records.candidate import Problem


def problem_label(problem: Problem) -> str:
    """For people: ``gemm_u8 m=256 n=256 k=256, contract static, hexagon-v66``."""
    workload = problem.workload
    label = workload.label.replace(workload.kernel, shown_name(workload.kernel), 1)
    return f"{label}, contract {problem.contract}, {problem.target.name}"


def shown_name(kernel: str) -> str:
    """The display name of a kernel: that of an upload or a package that is kept here."""
    from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX

    if not kernel.startswith((PIPELINE_PREFIX, PACKAGE_PREFIX)):
        return kernel
    from db import open_store
    from db.pipelines import named
    from service.auth.tokens import local_viewer

    with open_store() as store:
        return named(store, kernel, local_viewer()).label or kernel


def told_params(kernel: str, params: Mapping[str, int]) -> list[str]:
    """``NAME=VALUE`` of the parameters that are not the kernel's defaults; of all, for one that
    this machine does not know."""
    from tuner.errors import UserError
    from tuner.kernels import find_kernel

    try:
        defaults = {param.name: param.default for param in find_kernel(kernel).params}
    except UserError:
        defaults = {}
    return [f"{name}={value}" for name, value in params.items() if defaults.get(name) != value]


def problem_options(problem: Problem) -> str:
    """The part of a command line that names a problem: ``gemm_u8 -p m=256 ... --target ...``."""
    workload = problem.workload
    params = [f"-p {name}={value}" for name, value in workload.params.items()]
    places = [f"--target {problem.target.name}", f"--contract {problem.contract}"]
    return " ".join([workload.kernel, *params, *places])
