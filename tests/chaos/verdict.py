"""What happened, as the database itself recorded it by triggers, held against what is promised.

Nothing that hvxtune says of itself is believed: each change of a claim and each finished trial is
noted by the server, with the address that wrote it and the claim that held at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.chaos.faults import Fault

TRIGGERS = """
CREATE TABLE chaos_log (
    at double precision, job text, kind text, number int, writer text, holder text, token int
);
CREATE FUNCTION chaos_trial() RETURNS trigger AS $$ BEGIN
    INSERT INTO chaos_log SELECT extract(epoch FROM clock_timestamp()), NEW.job_id, 'done',
        NEW.number, host(inet_client_addr()), split_part(owner_host, '/', 1), fencing_token
    FROM jobs WHERE id = NEW.job_id;
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE FUNCTION chaos_job() RETURNS trigger AS $$ BEGIN
    INSERT INTO chaos_log VALUES (extract(epoch FROM clock_timestamp()), NEW.id,
        CASE WHEN NEW.owner_pid IS NULL THEN 'released' ELSE 'claimed' END, NULL,
        host(inet_client_addr()), split_part(coalesce(NEW.owner_host, OLD.owner_host), '/', 1),
        NEW.fencing_token);
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER chaos_first AFTER INSERT ON trials FOR EACH ROW
    WHEN (NEW.outcome IS NOT NULL) EXECUTE FUNCTION chaos_trial();
CREATE TRIGGER chaos_then AFTER UPDATE ON trials FOR EACH ROW
    WHEN (OLD.outcome IS NULL AND NEW.outcome IS NOT NULL OR OLD.outcome IS NOT NULL AND
          (OLD.outcome, OLD.artifact_digest, OLD.config_digest) IS DISTINCT FROM
          (NEW.outcome, NEW.artifact_digest, NEW.config_digest)) EXECUTE FUNCTION chaos_trial();
CREATE TRIGGER chaos_claim AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.fencing_token <> NEW.fencing_token OR OLD.owner_pid IS DISTINCT FROM NEW.owner_pid)
    EXECUTE FUNCTION chaos_job();
"""


@dataclass(frozen=True)
class Event:
    """A line of the log. ``at_s`` is the database's clock, ``writer`` an address, ``holder`` the
    host that held the job at that moment."""

    at_s: float
    job: str
    kind: str
    number: int | None
    writer: str
    holder: str
    token: int


@dataclass
class Verdict:
    """What a run came to. ``wrong`` is empty if every promise was kept, ``late`` if every job also
    went on in time."""

    jobs: int = 0
    trials: int = 0
    lost: int = 0
    doubled: int = 0
    stale: int = 0
    claims: int = 0
    longest_gap_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


def log_of(connection: psycopg.Connection[Any]) -> list[Event]:
    """What the triggers noted, in order."""
    rows = connection.execute("SELECT * FROM chaos_log ORDER BY at").fetchall()
    return [Event(*row) for row in rows]


def judge(
    events: Sequence[Event],
    expected: dict[str, int],
    final: dict[str, list[tuple[int, str | None]]],
    seen: set[tuple[str, int, str | None]],
    addresses: dict[str, str],
) -> Verdict:
    """``expected`` are the trials of each job, ``final`` the numbers and objects of those it has
    now, ``seen`` all that anyone was ever told, ``addresses`` those of the hosts."""
    found = Verdict(jobs=len(expected), claims=sum(one.kind == "claimed" for one in events))
    for job, count in expected.items():
        numbers = [number for number, _ in final.get(job, [])]
        found.trials += len(numbers)
        missing = set(range(count)) - set(numbers)
        found.lost += len(missing)
        done = [one.number for one in events if one.job == job and one.kind == "done"]
        found.doubled += len(done) - len(set(done)) + len(numbers) - len(set(numbers))
        if missing:
            found.wrong.append(f"job {job} lacks the trials {sorted(missing)}")
        kept = {(job, *one) for one in final.get(job, [])}
        if changed := {one for one in seen if one[0] == job} - kept:
            found.lost += len(changed)
            found.wrong.append(f"told, and then gone: {sorted(changed)}")
    if found.doubled:
        found.wrong.append(f"{found.doubled} trials were stored twice")
    for one in events:
        if one.kind == "done" and addresses.get(one.holder) != one.writer:
            found.stale += 1
            found.wrong.append(
                f"{one.writer} wrote trial {one.number} of {one.job}, held by {one.holder}"
            )
    return found


def longest_gap_s(
    events: Sequence[Event],
    faults: Iterable[Fault],
    begun_at: float,
    conductors: set[str],
    settle_s: float,
) -> tuple[float, str]:
    """The longest time that a job whose conductor failed was at a standstill while it could have
    gone on, and which. Time in which the database, or all conductors, had faults does not count,
    nor ``settle_s`` after them: processes start anew."""
    faults = list(faults)
    down = [
        (begun_at + f.at_s, begun_at + f.until_s + settle_s)
        for f in faults
        if f.host == "database" or _leaves_none(f, faults, conductors)
    ]
    longest, which = 0.0, "none"
    for fault in faults:
        if fault.host not in conductors:
            continue
        at = begun_at + fault.at_s
        for job in {one.job for one in events}:
            own = [one for one in events if one.job == job]
            before = [one for one in own if one.at_s <= at and one.kind != "done"]
            if not before or before[-1].kind != "claimed" or before[-1].holder != fault.host:
                continue
            after = next((one.at_s for one in own if one.at_s > at), None)
            if after is None:
                continue
            gap = after - at - _covered(down, at, after)
            if gap > longest:
                longest, which = gap, f"job {job} after {fault}"
    return longest, which


def _leaves_none(fault: Fault, faults: Sequence[Fault], conductors: set[str]) -> bool:
    """Whether at some time of ``fault`` all conductors had faults (then all of it counts so)."""
    if fault.host not in conductors:
        return False
    others = {
        one.host
        for one in faults
        if one.host in conductors and one.at_s < fault.until_s and one.until_s > fault.at_s
    }
    return others == conductors


def _covered(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """The seconds of ``begin`` to ``end`` that lie in any of ``spans``."""
    total, reached = 0.0, begin
    for first, last in sorted(spans):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total
