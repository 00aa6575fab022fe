"""Kernels, their spaces, and targets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from db.pipelines import kernel_for
from db.sql_store import SqlStore
from service.app_state import READS, Reader, Store
from service.auth import Caller
from service.http_errors import absent
from service.json_forms import kernel_json, space_json
from service.openapi import problems
from service.schemas.catalogue import KernelForm, KernelList, SpaceForm, SpaceQuery, TargetList
from service.schemas.params import read_params
from tuner.jobs.tuning import find_problem
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.problem.target import TARGETS

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=READS)


@router.get("/kernels", summary="The kernels that can be tuned", response_model=KernelList)
def list_kernels() -> dict[str, Any]:
    """Every kernel with its parameters, their defaults and ranges; packages come last."""
    from tuner.packages.files import kept

    names = [*kernel_names(), *(one.kernel for one in kept())]
    return {"items": [kernel_json(find_kernel(name)) for name in names]}


@router.get(
    "/kernels/{name}", summary="One kernel", response_model=KernelForm, responses=problems(404)
)
def get_kernel(name: str, caller: Reader, store: Store) -> dict[str, Any]:
    """The kernel with its parameters."""
    return kernel_json(_find(store, name, caller))


@router.get(
    "/kernels/{name}/space",
    summary="The space of a workload",
    response_model=SpaceForm,
    responses=problems(404),
)
def kernel_space(
    name: str, query: Annotated[SpaceQuery, Query()], caller: Reader, store: Store
) -> dict[str, Any]:
    """The knobs and constraints a search would use for these parameters, target and contract,
    with the default and the textbook config."""
    kernel = _find(store, name, caller).name
    return space_json(find_problem(kernel, read_params(query.param), query.target, query.contract))


@router.get("/targets", summary="The targets that code can be made for", response_model=TargetList)
def list_targets() -> dict[str, Any]:
    """Every target with the figures that schedules depend on."""
    return {"items": [target.as_dict() for target in TARGETS.values()]}


def _find(store: SqlStore, name: str, caller: Caller) -> Kernel:
    """The kernel that a path names for this caller; 404 if it does not exist."""
    with absent():
        return kernel_for(store, name, caller.viewer)
