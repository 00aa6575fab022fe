"""Every route keeps to the OpenAPI document, whatever is sent: Schemathesis makes the requests.

From the document itself, so a new route is tested as soon as it exists. There are a job, a
network and a pipeline, so that lists and look-ups have something to find; examples in the document
name them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings

from db import open_store, pipelines
from db.access.tokens import Token, add_token
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.auth.gate import Gate
from service.problem_details import MEDIA_TYPE
from service.settings import Settings
from service.token_text import new_token_text
from tests.rig.scale_u8 import KERNELS
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.service.described import document
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.conformance.stores import NETWORK, new_job
from tuner.kernels import EXTRA_KERNELS_VARIABLE

EXAMPLES = 10
"""Requests a route and phase; derandomized, so that a run says the same everywhere."""
CONFIG = schemathesis.Config.from_dict(
    {
        "checks": {
            # Names of kernels, digests and cursors are strings to the document: one that fits the
            # schema and names nothing is refused by 404 or 422.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "401", "403", "404", "409", "422", "429"]
            },
            # Where a list is too long, its body may be, too.
            "negative_data_rejection": {
                "expected-statuses": ["401", "403", "404", "405", "409", "413", "415", "422", "429"]
            },
        }
    }
)
FIELDS = {"type", "title", "status", "detail", "instance", "kind", "accepted", "next_step"}


def fill(store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    store.commit(job.id, token, started=[pending(0), pending(1)])
    store.commit(job.id, token, finished=[ok(0, artifact(0))], artifacts=[artifact(0)])
    store.create_batch(NETWORK, [new_job("a", "c"), new_job("b")])
    add_token(store, Token(TOKEN.id, "test", TOKEN.digest, list(Scope), created_at=time.time()))
    pipelines.keep(store, b"bytes", "blur", "test", {"stages": [], "inputs": [], "outputs": []})


TOKEN = new_token_text()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder: Path = tmp_path_factory.mktemp("schemathesis")
        patch.setenv("HVXTUNE_STATE_DIR", str(folder / "state"))
        patch.delenv("HVXTUNE_DATABASE_URL", raising=False)
        patch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        patch.setattr("tuner.executor.executor.find_generator", lambda name: StandInGenerator)
        patch.setattr("tuner.measure.find_measurer", lambda name: partial(StandInMeasurer, len))
        with open_store() as store:
            fill(store)
            gate = Gate(store, failures_per_minute=10**9)
            SWITCH.app = create_app(store, gate, Settings())
            SWITCH.app.state.stopping.set()  # the job goes on for ever, its events must not
            yield


class Switch:
    """Stands for the application until the fixture has made it: tests are named before."""

    app: FastAPI

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


SWITCH = Switch()
SCHEMA = schemathesis.openapi.from_dict(document(), config=CONFIG)
SCHEMA.app = SWITCH


@pytest.mark.slow
@SCHEMA.parametrize()
@pytest.mark.usefixtures("service")
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_documented(case: Any) -> None:
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN.text}"})
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == [MEDIA_TYPE]
        assert set(answer.json()) >= FIELDS
