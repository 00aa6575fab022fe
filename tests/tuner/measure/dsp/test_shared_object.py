"""What a phone's DSP gets to load: complete in itself, and nothing that it should not run."""

from __future__ import annotations

import pytest

from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.errors import CandidateError
from tuner.measure.dsp.shared_object import driver, shared_object
from tuner.measure.harness.linking import open_elf
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome

PIC = ("-fPIC",)
OF_THE_SYSTEM = {
    *("fopen", "fclose", "fread", "fwrite", "malloc", "memalign", "free", "memcpy", "memset"),
    *("dlopen", "dlsym", "dlclose", "HAP_request_VTCM", "HAP_release_VTCM"),
}
NOT_EVERYWHERE = {"HAP_perf_get_pcycles", "HAP_power_set", "qurt_hvx_lock"}


def symbols(content: bytes) -> dict[str, tuple[str, str]]:
    """Binding and section of the dynamic symbols."""
    table = open_elf(content).get_section_by_name(".dynsym")
    return {s.name: (s["st_info"]["bind"], s["st_shndx"]) for s in table.iter_symbols() if s.name}


def test_a_candidate_imports_nothing_and_shows_one_function() -> None:
    problem = scale_problem()
    found = shared_object(scale_artifact(problem, "USES_HEAP_AND_VTCM", PIC), "v66")
    assert list(symbols(found.content)) == ["hvxtune_run"]
    assert 100 < found.code_bytes < 5_000


def test_the_driver_needs_what_a_dsp_offers_and_runs_without_the_rest() -> None:
    found = symbols(driver("v66"))
    assert found.pop("main")[0] == "STB_GLOBAL"
    assert {section for _, section in found.values()} == {"SHN_UNDEF"}
    assert {name for name, (bind, _) in found.items() if bind == "STB_WEAK"} == NOT_EVERYWHERE
    assert {name for name, (bind, _) in found.items() if bind != "STB_WEAK"} == OF_THE_SYSTEM


def refusal(artifact: Artifact, arch: str = "v66") -> str:
    with pytest.raises(CandidateError) as caught:
        shared_object(artifact, arch)
    assert caught.value.outcome is Outcome.INFEASIBLE
    return caught.value.message


def test_system_calls_are_refused() -> None:
    assert "system calls" in refusal(scale_artifact(scale_problem(), "EXITS", PIC))


def test_code_for_fixed_addresses_is_refused() -> None:
    assert "fPIC" in refusal(scale_artifact(scale_problem(), "HANGS"))


def test_code_for_a_newer_arch_is_refused() -> None:
    assert "v66" in refusal(scale_artifact(scale_problem(), "WELL", PIC), "v65")


def test_an_object_without_its_entry_is_refused() -> None:
    whole = scale_artifact(scale_problem(), "WELL", PIC)
    assert "another_name" in refusal(Artifact(whole.digest, "another_name", whole.files))
