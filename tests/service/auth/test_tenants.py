"""What a tenant keeps private exists for nobody else, on any route or page.

Everything of one tenant's is private and has a marker in each of its texts. A stranger puts each
of its names and ids, and names of the same form that nobody ever gave, into each place of each
route and page where a text goes. Both answers are the same, but for the name that they repeat, and
no marker is in them. The owner, who asks the same, is told something else: or the question would
prove nothing. Routes, and the places for names, come from the routes themselves: a new one is
asked too, and must be described here only if it takes a body.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from httpx import Response
from starlette.testclient import TestClient

from dashboards.application import PAGES
from db import pipelines
from db.devices.roster import SqlRoster
from db.jobs.annotations import annotate
from db.sql_store import SqlStore
from service.auth.guard import OPEN_PATHS
from service.request_ids import HEADER
from service.routers import ROUTERS
from tests.dashboards.conftest import Browser
from tests.service.auth.conftest import GetToken, bearing
from tests.service.stored import a_config, problem, store_schedule
from tuner.keeping.best import lookup_of
from tuner.measure.farm.roster import Enrolment, Purpose
from tuner.records.batch import BatchPlan, NewJob
from tuner.records.network_plan import NetworkPlan, PlannedUnit
from tuner.records.outcome import Outcome
from tuner.records.trial import JobSpec, Submission, Trial

MARK = "zqx"
ANN = f"{MARK}ann"
SHAPE = {"m": 72, "n": 136, "k": 264}
PRIVATE = Submission(ANN, private=True, kernel_label=f"{MARK}kernel", request_id=f"{MARK}request")


@dataclass(frozen=True)
class Secret:
    """What ann keeps private: ``words`` are in its texts, ``names`` are what it is asked for by,
    each with one of the same form that nobody ever gave."""

    job: str
    schedule: str
    words: tuple[str, ...]
    names: tuple[tuple[str, str], ...]

    def is_in(self, text: str) -> bool:
        return any(word in text for word in self.words)


@pytest.fixture
def secret(store: SqlStore) -> Secret:
    schedule = store_schedule(store, problem(**SHAPE), 700, submission=PRIVATE)
    job = store.job(schedule.rpartition("-")[0])
    space = store.space(job.id)
    annotate(store, job.id, comment=f"{MARK} comment", add_tags=[f"{MARK}tag"])
    stage = {"name": f"{MARK}stage", "updates": 0, "dimensions": ["x"], "types": ["uint8"]}
    kept, _ = pipelines.keep(
        store,
        b"not even a pipeline",
        f"{MARK}blur",
        ANN,
        {"stages": [stage], "inputs": [], "outputs": []},
        private=True,
    )
    other = problem("sobel_u8", width=256, height=40)
    spec = JobSpec(problem=other, generator="halide", baseline=f"{MARK}baseline")
    network = store.create_batch(
        BatchPlan(name=f"{MARK}net"),
        [NewJob(spec, space, job.toolchain, (f"{MARK}layer",), PRIVATE)],
    )
    at_work = network.members[0].job
    token = store.claim(at_work)
    store.commit(
        at_work,
        token,
        finished=[Trial(0, a_config(other), "random", Outcome.COMPILE_ERROR, error=f"{MARK}error")],
    )
    roster = SqlRoster(store)
    roster.enrol(Enrolment("phone", "phone", "hardware"))
    assert roster.lease("phone", f"job {at_work} on lab7", Purpose.CHECK, duration_s=3600.0)
    ghost = "7z7z7z7z7z"
    digest = "0" * 64
    names = (
        (job.id, ghost),
        (schedule, f"{ghost}-0"),
        (network.id, ghost),
        (f"{MARK}net", "wkynet"),
        (f"pipeline:{MARK}blur", "pipeline:wkyblur"),
        (f"pipeline:{ANN}/{MARK}blur", "pipeline:wkyann/wkyblur"),
        (kept.kernel, f"pipeline:{digest[:12]}"),
        (f"pipeline:{kept.digest}", f"pipeline:{digest}"),
        (kept.digest, digest),
    )
    words = (MARK, job.id, at_work, network.id, kept.digest[:12])
    return Secret(job.id, schedule, words, names)


Ask = Callable[..., Response]
KINDS = {
    **dict.fromkeys(("job", "job_id"), slice(1)),
    **dict.fromkeys(("id", "public_id"), slice(1, 2)),
    "network": slice(2, 4),
    "digest": slice(7, 9),
}
"""Which of the names those parts of paths are for."""
A_PLAN = NetworkPlan(
    "latency", (PlannedUnit("arm", True, "", 0.0, 0.0),), (), (), (), 0, 0.0, 0.0, 0.0, 0.0
)
BEST = "/v1/schedules/best"
ASKED_BEST = "kernel=gemm_u8&" + "&".join(f"param={name}={value}" for name, value in SHAPE.items())
BODIES: dict[str, list[Callable[[str], Any]]] = {
    f"{BEST}:batch": [
        lambda name: {"workloads": [{"kernel": name}, {"kernel": "gemm_u8", "params": SHAPE}]},
        lambda name: {"workloads": [{"kernel": name}], "on_miss": "enqueue"},
    ],
    "/v1/jobs": [
        lambda name: {"kernel": name},
        lambda name: {"workloads": [{"kernel": "gemm_u8"}, {"kernel": name}], "name": "net"},
    ],
    "/v1/networks": [
        lambda name: {"name": "net", "layers": [{"name": "a", "operator": "conv", "kernel": name}]},
    ],
    "/v1/networks/{network}/plan": [lambda name: A_PLAN.document()],
    "/v1/jobs/{job}": [lambda name: {"comment": "mine", "add_tags": ["mine"]}],
}
"""Of routes that take one from a token with `read` and `submit`; of others it is not read."""
FOR_OTHERS = ("packages", "quarantine", "tokens", "devices", "import", "pipelines")
"""Parts of the paths of routes whose bodies are for admins and operators, or name nothing."""
FORM_FIELDS = ("kernel", "ticked")
UNDECLARED = {"GET /ui/submit": ["kernel"], "GET /ui/submit/space": ["kernel"]}
"""Fields of queries that pages read without a schema."""
QUERIES = {BEST: [ASKED_BEST, f"{ASKED_BEST}&allow_nearest=true"]}
"""Questions without a name in them that ann's things would answer."""
NO_TEXT = (
    *("cursor", "param", "state", "quarantined", "fidelity", "order", "outcome", "seen"),
    *("target", "contract", "after", "next"),
)
"""Fields of queries that take no name."""
NO_NAMES = {"number": "0", "kind": "object", "form": "csv", "action": "cancel", "verb": "drain"}
CHANGES = {"GET /metrics", "GET /ui/login", "POST /ui/login", "POST /ui/logout"}
"""Routes that say something else each time."""
HIDES_NOTHING = {
    "GET /v1/kernels",
    "GET /v1/packages",  # admins register them for everybody
    "GET /v1/targets",
    "GET /v1/devices/{name}/events",
    "GET /v1/tokens",  # for admins
    "GET /v1/audit",
    "GET /ui/farm/{name}",
}
"""Routes that give everybody the same, with what is stored here."""


class Question(NamedTuple):
    """A request with a ``name`` in it, or without any."""

    method: str
    route: str
    path: str
    body: Any
    name: str

    @property
    def which(self) -> str:
        return f"{self.method} {self.route}"


class Place(NamedTuple):
    """A route, and where names go: parts of its path, its query, its body."""

    method: str
    path: str
    fields: list[str]
    takes_body: bool

    @property
    def bodies(self) -> list[Callable[[str], Any]]:
        if self.method == "POST" and self.path.startswith("/ui/"):
            return [lambda name: dict.fromkeys(FORM_FIELDS, name)]
        return BODIES.get(self.path, []) if self.takes_body else []

    def names(self, secret: Secret, every: bool) -> Sequence[tuple[str, str]]:
        """Those to ask with: one for all where there is no place for it. Without ``every``, those
        of the kind that the place is for."""
        named = re.search(r"{(\w+)}", self.path)
        if named is None:
            of_queries = secret.names[1 : 8 : 1 if every else 3]
            return of_queries if self.fields or self.bodies else secret.names[:1]
        return secret.names if every else secret.names[KINDS.get(named[1], slice(0, 9, 4))]

    def questions(self, name: str) -> Iterator[Question]:
        """With ``name`` in each place in turn."""
        path = re.sub(r"{(\w+)}", lambda part: NO_NAMES.get(part[1], quote(name)), self.path)
        queries = [f"{field}={quote(name)}" for field in self.fields if "{" not in self.path]
        for body in self.bodies or [lambda name: None]:
            yield Question(self.method, self.path, path, body(name), name)
        for query in (*queries, *QUERIES.get(self.path, ())):
            yield Question(self.method, self.path, f"{path}?{query}", None, name)


def takes_text(schema: dict[str, Any]) -> bool:
    return not {"$ref", "enum", "const"} & schema.keys() and (
        schema.get("type") == "string"
        or any(map(takes_text, schema.get("anyOf", ())))
        or (schema.get("type") == "array" and takes_text(schema["items"]))
    )


def places() -> Iterator[Place]:
    for prefix, modules in (("", ROUTERS), ("/ui", PAGES)):
        routes = [route for name in modules for route in import_module(name).router.routes]
        document = get_openapi(title="", version="", routes=routes)
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                fields = [
                    one["name"]
                    for one in operation.get("parameters", ())
                    if one["in"] == "query"
                    and one["name"] not in NO_TEXT
                    and takes_text(one["schema"])
                ]
                fields += UNDECLARED.get(f"{method.upper()} {prefix}{path}", [])
                yield Place(method.upper(), prefix + path, fields, "requestBody" in operation)


PLACES = sorted(
    (one for one in places() if one.path not in OPEN_PATHS),
    key=lambda one: one.path.endswith(("/login", "/logout")),  # last: they end the session
)


@pytest.fixture
def user(app: FastAPI, new_token: GetToken) -> Iterator[Callable[..., Ask]]:
    """How somebody asks: pages with a session, the rest with a token."""

    def user(name: str, *scopes: str, **columns: object) -> Ask:
        token = new_token(*(scopes or ("read", "submit")), name=name, **columns)
        client, browser = (
            running.enter_context(kind(app, raise_server_exceptions=False))
            for kind in (TestClient, Browser)
        )
        assert isinstance(browser, Browser)
        browser.form("/ui/login", "/ui/login", token=token.text)
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/ui/jobs").text)
        assert csrf

        def ask(method: str, path: str, body: Any = None) -> Response:
            if not path.startswith("/ui/"):
                headers = {**bearing(token), "Content-Type": "application/json", HEADER: "same"}
                content = None if body is None else json.dumps(body)
                return client.request(method, path, headers=headers, content=content)
            if method == "GET":
                return browser.get(path, headers={HEADER: "same"})
            form = {"csrf_token": csrf[1], **(body or {})}
            return browser.post(path, data=form, headers={HEADER: "same"})

        return ask

    with ExitStack() as running:  # one loop for all requests
        yield user


def told(answer: Response, name: str = "") -> str:
    """All of an answer, with every digit of ``name``, whole or cut off, replaced by one: answers
    that repeat it cannot be told apart by it, but by how much of it they repeat."""
    text = answer.text
    if answer.content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            text = "".join(archive.read(each).decode("latin-1") for each in archive.namelist())
    kept = ("content-type", "location", "cache-control", "content-disposition")
    text += "".join(f"\n{key}: {answer.headers.get(key)}" for key in kept)
    parts = (name.removeprefix("pipeline:"), name.partition("-")[0])
    forms = {name, quote(name), quote(name, safe=""), *parts}
    cuts = sorted({form[:size] for form in forms for size in (999, 80, 60, 40, 20)}, key=len)
    for cut in reversed([one for one in cuts if one]):
        text = text.replace(cut, "?" * len(cut))
    text = re.sub(r'"csrf_token" value="\w+"', "", text)
    text = re.sub(r"\d+(\.\d+)? (s|ms|min|seconds?|minutes?)\b", "some time", text)
    return f"{answer.status_code} {text}"


def _difference(found: str, nothing: str) -> str:
    return "\n".join(unified_diff(nothing.splitlines(), found.splitlines(), n=0, lineterm=""))


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_stranger_finds_nothing_and_the_owner_all(
    secret: Secret, user: Callable[..., Ask], every: bool
) -> None:
    bob, ann = user("bob"), user("bob", owner=ANN)  # pages show the name of who looks at them
    leaks: dict[str, str] = {}
    hidden: set[str] = set()
    for place in PLACES:
        for name, ghost in place.names(secret, every):
            for real, unknown in zip(place.questions(name), place.questions(ghost), strict=True):
                answer, other = (bob(*one[:1], one.path, one.body) for one in (real, unknown))
                found, nothing = told(answer, name), told(other, ghost)
                if (
                    (found != nothing and real.which not in CHANGES)
                    or secret.is_in(nothing)
                    or answer.status_code >= 500
                ):
                    leaks[f"{real.which} {real.path}"] = _difference(found, nothing)
                is_asked = place.method == "GET" and real.which not in hidden
                if is_asked and told(ann("GET", real.path), name) != found:
                    hidden.add(real.which)
    assert leaks == {}
    assert {
        f"GET {one.path}" for one in PLACES if one.method == "GET"
    } - hidden - CHANGES == HIDES_NOTHING


def test_bodies_of_all_routes_are_asked_with_names() -> None:
    bodies = {one.path for one in PLACES if one.takes_body}
    assert {path for path in bodies if not any(part in path for part in FOR_OTHERS)} == set(BODIES)


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
    answer = user("carl", owner=ANN)("GET", f"/v1/jobs/{secret.job}")
    assert (answer.json()["user"], answer.json()["owner"]) == (ANN, ANN)


def test_only_the_owner_steers_a_shared_job(store: SqlStore, user: Callable[..., Ask]) -> None:
    from tests.service.job_routes import made

    job = made(store, ANN)
    assert user("bob")("POST", f"/v1/jobs/{job}/cancel").status_code == 403
    assert user(ANN, owner="team")("POST", f"/v1/jobs/{job}/cancel").status_code == 403
    assert user("carl", owner=ANN)("POST", f"/v1/jobs/{job}/cancel").status_code == 200


def best(ask: Ask) -> Response:
    return ask("GET", f"{BEST}?{ASKED_BEST}")


def test_a_private_best_answers_its_owner_alone_and_hides_no_shared_one(
    store: SqlStore, secret: Secret, user: Callable[..., Ask]
) -> None:
    ann, bob = user(ANN), user("bob")
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


def test_nobody_learns_from_what_is_private(store: SqlStore, secret: Secret) -> None:
    near = problem(m=64, n=128, k=256)

    def past(audience: str) -> list[str]:
        found = store.near_jobs(
            JobSpec(problem=near, generator="halide"),
            before=9e9,
            least=1,
            most=2,
            audience=audience,
        )
        return [one.id for one in found]

    assert (past(ANN), past("bob"), past("")) == ([secret.job], [], [])


def test_the_next_best_of_a_shared_one_is_shared(store: SqlStore, secret: Secret) -> None:
    from db.schedules.quarantine import quarantine

    of = problem(**SHAPE)
    first, second = (store_schedule(store, of, cycles) for cycles in (500, 650))
    assert quarantine(store, first, "wrong")
    found = store.best(lookup_of(of))
    assert found is not None
    assert found.public_id == second
    assert store.seen_by(ANN).best(lookup_of(of)).public_id == second  # type: ignore[union-attr]
    assert quarantine(store, second, "wrong, too")
    assert store.best(lookup_of(of)) is None
    assert store.seen_by(ANN).best(lookup_of(of)).public_id == secret.schedule  # type: ignore[union-attr]


def test_not_even_an_admin_exports_it(secret: Secret, user: Callable[..., Ask]) -> None:
    answer = user("root", "admin")("GET", "/v1/export")
    assert secret.schedule not in told(answer), "an import would share it"


def test_a_private_job_counts_for_the_quota_whatever_token_asks(
    store: SqlStore, secret: Secret
) -> None:
    from db.access.usage import trials_asked_for

    assert len(trials_asked_for(store.seen_by("other-team"), ANN, 0.0)) == 2
