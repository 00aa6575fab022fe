"""What a tenant keeps private is hidden from others on every route and page there is.

Made from the routes: one that is new is asked too, and must be described here if it takes a body
or a part of its path that is not known yet. Each is asked as a stranger, who must find nothing,
and as the owner, who must find something, or the question would prove nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from httpx import Response
from starlette.testclient import TestClient

from dashboards.application import PAGES
from db import pipelines
from db.sql_store import SqlStore
from service.auth.guard import OPEN_PATHS
from service.routers import ROUTERS
from tests.dashboards.conftest import Browser
from tests.service.auth.conftest import GetToken, bearing
from tests.service.stored import problem, store_schedule
from tuner.keeping.best import lookup_of
from tuner.records.batch import BatchPlan, NewJob
from tuner.records.network_plan import NetworkPlan, PlannedUnit
from tuner.records.trial import Submission

LABEL = "anns-secret-kernel"
SHAPE = {"m": 72, "n": 136, "k": 264}


@dataclass(frozen=True)
class Secret:
    """What ann keeps private."""

    job: str
    schedule: str
    kernel: str
    digest: str
    network: str

    def is_in(self, answer: Response) -> bool:
        words = (*vars(self).values(), LABEL, "ann_only")
        return any(word in answer.text for word in words)


@pytest.fixture
def secret(store: SqlStore) -> Secret:
    private = Submission("ann", private=True, kernel_label=LABEL)
    of = problem(**SHAPE)
    schedule = store_schedule(store, of, 700, submission=private)
    nothing = {"stages": [], "inputs": [], "outputs": []}
    upload, _ = pipelines.keep(store, b"ann's", "ann_only", "ann", nothing, private=True)
    job = schedule.rpartition("-")[0]
    made = store.job(job)
    plan = BatchPlan(name="ann_only")
    space = store.space(job)
    network = store.create_batch(
        plan, [NewJob(made.spec, space, made.toolchain, ("ann_only",), private)]
    )
    return Secret(job, schedule, upload.kernel, upload.digest, network.id)


Ask = Callable[..., Response]
A_PLAN = NetworkPlan(
    "latency", (PlannedUnit("arm", True, "", 0.0, 0.0),), (), (), (), 0, 0.0, 0.0, 0.0, 0.0
)

BODIES = {
    "/v1/schedules/best:batch": {"workloads": [{"kernel": "gemm_u8", "params": SHAPE}]},
    "/v1/jobs": lambda secret: {"kernel": secret.kernel, "params": {}},
    "/v1/networks": lambda secret: {
        "name": "net",
        "layers": [{"name": "a", "operator": "conv", "kernel": secret.kernel}],
    },
    "/v1/networks/{network}/plan": A_PLAN.document(),
    "/v1/jobs/{job}": {"comment": "mine", "add_tags": ["mine"]},
}
"""Of routes that take one from a token with `read` and `submit`."""
QUERIES = {
    "/v1/schedules/best": "kernel=gemm_u8&allow_nearest=true&"
    + "&".join(f"params={name}={value}" for name, value in SHAPE.items()),
    "/v1/kernels/{name}/space": "",
    "/ui/compare": lambda secret: f"kind=jobs&own={secret.job}&other={secret.job}",
    "/ui/code": lambda secret: f"own={secret.job}-0",
    "/ui/code/sides": lambda secret: f"own={secret.job}-0",
    "/ui/submit": lambda secret: f"kernel={secret.kernel}",
    "/ui/submit/space": lambda secret: f"kernel={secret.kernel}",
    "/ui/schedules/shapes": "kernel=gemm_u8",
}
FORMS = {"/ui/submit": lambda secret: {"kernel": secret.kernel}}
HIDES_NOTHING = {
    "GET /v1/kernels",
    "GET /v1/packages",  # admins register them for everybody
    "GET /v1/targets",
    "GET /v1/devices",
    "GET /v1/devices/{name}/events",
    "GET /v1/conductors",  # nobody works on the job just now
    "GET /v1/tokens",  # for admins
    "GET /v1/audit",
    "GET /v1/schedules/{id}/assembly",  # it has none
    "GET /metrics",
    "GET /ui/login",
    "GET /ui/farm",
    "GET /ui/farm/{name}",
}
"""Routes that give everybody the same, with what is stored here."""


def routes() -> Iterator[tuple[str, str]]:
    for name in ROUTERS:
        for route in import_module(name).router.routes:
            assert isinstance(route, APIRoute)
            yield from ((method, route.path) for method in sorted(route.methods))
    for name in PAGES:
        for route in import_module(name).router.routes:
            assert isinstance(route, APIRoute)
            yield from ((method, f"/ui{route.path}") for method in sorted(route.methods))


ASKED = sorted(
    (each for each in routes() if each[1] not in OPEN_PATHS),
    key=lambda each: each[1].endswith(("/login", "/logout")),  # last: they end the session
)


NOTHING = Secret("", "", "", "", "")


def path_for(path: str, secret: Secret) -> str:
    """The path with ann's things in it."""
    owned = {
        "job": secret.job,
        "job_id": secret.job,
        "network": secret.network,
        "id": secret.schedule,
        "public_id": secret.schedule,
        "digest": secret.digest,
        "number": "0",
        "kind": "object",
        "action": "cancel",
        "verb": "drain",
    }
    if "/kernels/" in path:
        owned["name"] = secret.kernel
    else:
        owned |= {"name": "nothing", "token_id": "nothing"}
    return re.sub(r"{(\w+)}", lambda part: owned[part[1]], path)


def asked(ask: Ask, method: str, path: str, secret: Secret) -> Response:
    query = QUERIES.get(path, "")
    query = query(secret) if callable(query) else query
    body = BODIES.get(path) if method in ("POST", "PUT", "PATCH") else None
    body = FORMS.get(path, body) if method == "POST" else body
    body = body(secret) if callable(body) else body
    return ask(method, f"{path_for(path, secret)}?{query}".rstrip("?"), body)


@pytest.fixture
def user(app: FastAPI, new_token: GetToken) -> Callable[..., Ask]:
    """How somebody asks: pages with a session, the rest with a token."""

    def user(name: str, *scopes: str, **columns: object) -> Ask:
        token = new_token(*(scopes or ("read", "submit")), name=name, **columns)
        client = TestClient(app, raise_server_exceptions=False)
        browser = Browser(app, raise_server_exceptions=False)
        browser.form("/ui/login", "/ui/login", token=token.text)

        def ask(method: str, path: str, body: object = None) -> Response:
            if not path.startswith("/ui/"):
                headers = {**bearing(token), "Content-Type": "application/json"}
                content = None if body is None else json.dumps(body)
                return client.request(method, path, headers=headers, content=content)
            if method == "GET":
                return browser.get(path)
            return browser.form("/ui/jobs", path, **(body or {}))  # type: ignore[arg-type]

        return ask

    return user


def test_a_stranger_finds_nothing_of_it(secret: Secret, user: Callable[..., Ask]) -> None:
    bob = user("bob")
    found = {f"{method} {path}": _leak(asked(bob, method, path, secret), path, secret)
             for method, path in ASKED}  # fmt: skip
    assert {route: leak for route, leak in found.items() if leak} == {}


def _leak(answer: Response, path: str, secret: Secret) -> str:
    """What a stranger learnt from an answer; empty if nothing."""
    told, names_it = answer.text, path_for(path, secret) != path_for(path, NOTHING)
    if names_it or path in QUERIES or path in BODIES or path in FORMS:
        for word in vars(secret).values():
            told = told.replace(word, "")  # what was asked for may be repeated
    if secret.is_in(Response(200, text=told)):
        return f"it is named: {told[:2000]}"
    # That the token lacks the scope is no news; that the job is another's would be.
    lacks_scope = answer.status_code == 403 and "lacks the scope" in answer.text
    if names_it and not lacks_scope and answer.status_code != 404:
        return f"status {answer.status_code}, not 404"
    return "" if answer.status_code < 500 else f"status {answer.status_code}: {answer.text}"


def test_its_owner_finds_it(secret: Secret, user: Callable[..., Ask]) -> None:
    """Else the test of strangers would prove nothing."""
    ann, bob = user("ann"), user("bob")
    alike = {
        f"{method} {path}"
        for method, path in ASKED
        if method == "GET"
        and _same(asked(ann, method, path, secret), asked(bob, method, path, secret), secret)
    }
    assert alike - HIDES_NOTHING == set()


def _same(anns: Response, bobs: Response, secret: Secret) -> bool:
    if anns.headers["Content-Type"].startswith("text/html"):  # every page has its viewer's name
        return secret.is_in(anns) == secret.is_in(bobs) and anns.status_code == bobs.status_code
    return (anns.status_code, anns.content) == (bobs.status_code, bobs.content)


@pytest.mark.parametrize("scopes", [("operate", "read"), ("admin",)])
def test_who_runs_the_service_sees_and_steers_it(
    scopes: tuple[str, ...], secret: Secret, user: Callable[..., Ask]
) -> None:
    ask = user("root", *scopes)
    assert ask("GET", f"/v1/jobs/{secret.job}").json()["visibility"] == "private"
    assert ask("POST", f"/v1/schedules/{secret.schedule}/release").status_code == 200


def test_a_token_may_read_all(secret: Secret, user: Callable[..., Ask]) -> None:
    path = f"/v1/jobs/{secret.job}"
    assert user("auditor", "read", reads="all")("GET", path).status_code == 200
    assert user("auditor", "read")("GET", path).status_code == 404


def test_a_team_shares_what_is_private(secret: Secret, user: Callable[..., Ask]) -> None:
    """Several people's tokens, one owner."""
    answer = user("carl", owner="ann")("GET", f"/v1/jobs/{secret.job}")
    assert (answer.json()["user"], answer.json()["owner"]) == ("ann", "ann")


def test_only_the_owner_steers_a_shared_job(store: SqlStore, user: Callable[..., Ask]) -> None:
    from tests.service.job_routes import made

    job = made(store, "ann")
    assert user("bob")("POST", f"/v1/jobs/{job}/cancel").status_code == 403
    assert user("ann", owner="team")("POST", f"/v1/jobs/{job}/cancel").status_code == 403
    assert user("carl", owner="ann")("POST", f"/v1/jobs/{job}/cancel").status_code == 200


def best(ask: Ask) -> Response:
    return ask(
        "GET",
        f"/v1/schedules/best?{QUERIES['/v1/schedules/best']}".replace("allow_nearest=true&", ""),
    )


def test_a_private_best_answers_its_owner_alone_and_hides_no_shared_one(
    store: SqlStore, secret: Secret, user: Callable[..., Ask]
) -> None:
    ann, bob = user("ann"), user("bob")
    operator = user("root", "admin")
    assert best(ann).json()["id"] == secret.schedule
    miss = best(bob)
    assert (miss.status_code, miss.json()["nearest"]) == (404, [])
    assert best(operator).status_code == 404
    shared = store_schedule(store, problem(**SHAPE), 900, submission=Submission("bob"))
    for _ in range(2):  # found, and kept
        assert best(ann).json()["id"] == secret.schedule
        assert best(bob).json()["id"] == best(operator).json()["id"] == shared
    faster = store_schedule(store, problem(**SHAPE), 600, submission=Submission("bob"))
    assert best(ann).json()["id"] == best(bob).json()["id"] == faster


def test_nobody_begins_with_what_is_private(store: SqlStore, secret: Secret) -> None:
    near = problem(m=64, n=128, k=256)

    def past(audience: str) -> list[str]:
        found = store.near_trials(near, before=9e9, problems=2, each=2, audience=audience)
        return [one.job for one in found]

    assert (past("ann"), past("bob"), past("")) == ([secret.job], [], [])


def test_the_next_best_of_a_shared_one_is_shared(store: SqlStore, secret: Secret) -> None:
    from db.schedules.quarantine import quarantine

    of = problem(**SHAPE)
    first, second = (store_schedule(store, of, cycles) for cycles in (500, 650))
    assert quarantine(store, first, "wrong")
    found = store.best(lookup_of(of))
    assert found is not None
    assert found.public_id == second
    assert store.seen_by("ann").best(lookup_of(of)).public_id == second  # type: ignore[union-attr]
    assert quarantine(store, second, "wrong, too")
    assert store.best(lookup_of(of)) is None
    assert store.seen_by("ann").best(lookup_of(of)).public_id == secret.schedule  # type: ignore[union-attr]


def test_an_export_holds_what_is_shared_and_ones_own(
    store: SqlStore, secret: Secret, tmp_path, user: Callable[..., Ask]
) -> None:
    import io
    import zipfile

    def lines(ask: Ask) -> bytes:
        with zipfile.ZipFile(io.BytesIO(ask("GET", "/v1/export").content)) as archive:
            return b"".join(archive.read(name) for name in archive.namelist())

    word = secret.schedule.encode()
    assert word in lines(user("ann"))
    assert word not in lines(user("bob"))
    assert word not in lines(user("root", "admin")), "an import would share it"


def test_a_private_job_counts_for_the_quota_whatever_token_asks(
    store: SqlStore, secret: Secret
) -> None:
    from db.access.usage import trials_asked_for

    assert len(trials_asked_for(store.seen_by("other-team"), "ann", 0.0)) == 2
