"""Takes what users upload, for REST and pages alike: pipelines, packages and models, read in
contained processes, within quotas, and noted in the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool

from db import pipelines
from db.access.usage import MODEL_ACTION, PACKAGE_ACTION
from db.pipelines import StoredPipeline
from db.sql_store import SqlStore
from service.auth.audit import record
from service.auth.caller import Caller
from service.auth.quotas import check_upload
from service.json_forms import kernel_json, space_json
from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.packages.files import Package, unpacked
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from tuner.network.layers import Layer

_CHECKS = CapacityLimiter(1)
"""A Generator takes a compiler and seconds to check, a model up to minutes to read: one at a time,
in a thread of its own."""


def keep_pipeline(
    request: HTTPConnection,
    store: SqlStore,
    caller: Caller,
    data: bytes,
    name: str,
    *,
    private: bool,
) -> tuple[StoredPipeline, bool]:
    """Stores the bytes of a serialized pipeline under ``name``, and says whether they are new
    there. Blocks."""
    from tuner.codegen.halide.uploads import describe_pipeline

    check_upload(store, caller, len(data))
    description = describe_pipeline(data).as_dict()
    with store.transaction():
        check_upload(store, caller, len(data))  # others may have uploaded while it was looked at
        stored, is_new = pipelines.keep(
            store,
            data,
            name,
            caller.name,
            description,
            owner=caller.owner,
            private=private,
        )
        if is_new:
            detail = {"name": name, "upload_bytes": len(data)}
            record(store, caller, "pipeline.upload", stored.digest, detail, request)
    return stored, is_new


def derived(stored: StoredPipeline) -> dict[str, Any]:
    """The parameters and the space for the default sizes, derived in a contained process; or why
    there are none."""
    try:
        kernel = find_kernel(stored.kernel)
        problem = kernel.problem(None, Contract.STATIC, find_target(DEFAULT_TARGET))
        found = {"params": kernel_json(kernel)["params"], "space": space_json(problem)}
        return {**found, "overflow": kernel.overflow(problem.workload.params) or None}
    except UserError as error:
        return {"not_tunable": error.message}


async def register_package(
    request: HTTPConnection,
    store: SqlStore,
    caller: Caller,
    data: bytes,
    read: Callable[[bytes], Package] = unpacked,
) -> Package:
    """Checks a package, whose bytes ``read`` takes, as far as that goes without building it, and
    keeps it."""
    await run_in_threadpool(check_upload, store, caller, len(data))

    def checked() -> Package:
        from tuner.packages.kernel import PackageKernel

        return PackageKernel(read(data)).package

    package = await to_thread.run_sync(checked, limiter=_CHECKS)
    await run_in_threadpool(_keep, request, store, caller, package, len(data))
    return package


def _keep(
    request: HTTPConnection, store: SqlStore, caller: Caller, package: Package, size_bytes: int
) -> None:
    from tuner.packages.files import keep

    with store.transaction():
        check_upload(store, caller, size_bytes)  # others may have come while it was checked
        detail = {"name": package.manifest.name, "kernel": keep(package), "bytes": size_bytes}
        record(store, caller, PACKAGE_ACTION, package.digest, detail, request)


@dataclass(frozen=True)
class ReadModel:
    """A model without its weights: its name, and its layers with the kernels that fit them."""

    name: str
    layers: list[Layer]


async def read_model(
    request: HTTPConnection,
    store: SqlStore,
    caller: Caller,
    data: bytes,
    name: str,
    axes: Mapping[str, int],
) -> ReadModel:
    """Reads a model file called ``name`` and keeps nothing of it. Counts against the quota of
    uploads whether or not it can be read."""

    def count() -> None:
        with store.transaction():
            check_upload(store, caller, len(data))
            record(store, caller, MODEL_ACTION, name[:100], {"bytes": len(data)}, request)

    def read() -> ReadModel:
        from tuner.network.layouts import laid_out
        from tuner.network.reading import contained
        from tuner.network.reading.onnx_file import no_external_data

        graph = contained.read(data, name, axes, no_external_data)
        return ReadModel(graph.name, laid_out(graph))

    await run_in_threadpool(count)
    return await to_thread.run_sync(read, limiter=_CHECKS)
