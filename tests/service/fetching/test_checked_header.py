"""The header's checks, compiled for this machine and called: each promise broken in turn."""

from __future__ import annotations

import ctypes
import re

import pytest

from service.fetching.checked_header import header_text
from tests.rig.scale_u8 import KERNELS, ScaleU8
from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.toolchain import NativePart, built
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.problem.contract import Contract

SOURCE = """
#undef NDEBUG /* zig defines it where it optimizes */
#ifdef RELEASE
#define NDEBUG
#endif
#define HVXTUNE_BROKEN_PROMISE(text) (noted = text)
static const char *noted;
#include "scale.h"
int the_schedule(struct halide_buffer_t *in, struct halide_buffer_t *out) {
    return in == out ? 7 : 0;
}
__attribute__((visibility("default"))) const char *
broken(struct halide_buffer_t *in, struct halide_buffer_t *out) {
    return scale_broken_promise(in, out);
}
__attribute__((visibility("default"))) const char *
noted_by_call(struct halide_buffer_t *in, struct halide_buffer_t *out) {
    noted = NULL;
    scale(in, out);
    return noted;
}
"""


class Dimension(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("min", "extent", "stride", "flags")]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_uint64),
        ("interface", ctypes.c_void_p),
        ("host", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(Dimension)),
        ("padding", ctypes.c_void_p),
    ]


def good_buffer() -> Buffer:
    dims = (Dimension * 2)(Dimension(0, 512, 1, 0), Dimension(0, 4, 512, 0))
    return Buffer(host=0x10000, code=1, bits=8, lanes=1, dimensions=2, dim=dims)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """``compiled(contract, *flags)`` gives a function: what the header says of two buffers."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)

    def build(contract: Contract, *flags: str):
        problem = find_problem("scale_u8", {"n": 512, "h": 4}, "hexagon-v66", "static")
        (tmp_path / "scale.h").write_text(header_text("scale", problem, contract, "the_schedule"))
        declaration = "struct halide_buffer_t;\nint the_schedule({0} *, {0} *);\n"
        (tmp_path / "the_schedule.h").write_text(declaration.format("struct halide_buffer_t"))
        (tmp_path / "checks.c").write_text(SOURCE)
        part = NativePart(
            "checks",
            "host",
            (tmp_path / "checks.c",),
            (tmp_path / "scale.h",),
            flags=("-ffreestanding", "-fno-stack-protector", *flags),
        )
        return ctypes.CDLL(str(built(part)))

    return build


def said(library, spoil=lambda buffer: None, function="broken", spoilt="output") -> str | None:
    call = getattr(library, function)
    call.restype = ctypes.c_char_p
    buffers = {"input": good_buffer(), "output": good_buffer()}
    spoil(buffers[spoilt])
    text = call(*map(ctypes.byref, buffers.values()))
    return None if text is None else text.decode()


def set_dim(index, field, value):
    return lambda buffer: setattr(buffer.dim[index], field, value)


def set_field(field, value):
    return lambda buffer: setattr(buffer, field, value)


BREAKS = {
    "no memory on the host": (set_field("host", 0), Contract.NONE),
    "are not uint8": (set_field("bits", 16), Contract.NONE),
    "does not have 2 dimensions": (set_field("dimensions", 3), Contract.NONE),
    "does not begin at 0": (set_dim(1, "min", 4), Contract.NONE),
    "are not dense": (set_dim(0, "stride", 2), Contract.NONE),
    "is not aligned to 128 bytes": (set_field("host", 0x10040), Contract.HOST),
    "is not a multiple of 128": (set_dim(1, "stride", 520), Contract.STRIDE),
    "the innermost extent": (set_dim(0, "extent", 500), Contract.EXTENT),
    "the extent of dimension 1": (set_dim(1, "extent", 5), Contract.STATIC),
    "the stride of dimension 1": (set_dim(1, "stride", 640), Contract.STATIC),
}


@pytest.mark.parametrize("contract", Contract)
def test_each_contract_asks_for_its_promises_and_no_more(compiled, contract):
    library = compiled(contract)
    assert said(library) is None
    for text, (spoil, since) in BREAKS.items():
        found = said(library, spoil)
        if since.level > contract.level:
            assert found is None
        elif contract is not Contract.STATIC:  # which names the exact value
            assert text in found
        else:
            assert found.startswith("scale: ")


def test_a_loose_buffer_may_lie_anywhere_and_the_others_may_not(compiled, monkeypatch):
    specs = ScaleU8().buffers({"h": 4, "n": 512})
    loose = (specs[0], specs[1]._replace(loose=1))
    monkeypatch.setattr(ScaleU8, "buffers", lambda *_: loose)
    library = compiled(Contract.STATIC)
    for text in ("is not aligned to 128 bytes", "is not a multiple of 128"):
        spoil, _ = BREAKS[text]
        assert said(library, spoil) is None
        assert said(library, spoil, spoilt="input") is not None
    assert "are not uint8" in said(library, BREAKS["are not uint8"][0])
    assert said(library, set_dim(1, "extent", 5)) is not None


def test_the_header_says_which_buffers_are_loose(monkeypatch, tmp_path):
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    problem = find_problem("scale_u8", {"n": 512, "h": 4}, "hexagon-v66", "static")
    plain = header_text("scale", problem, Contract.STATIC, "the_schedule")
    assert "loose: " not in plain
    specs = ScaleU8().buffers({"h": 4, "n": 512})
    monkeypatch.setattr(ScaleU8, "buffers", lambda *_: (specs[0]._replace(loose=1), specs[1]))
    text = header_text("scale", problem, Contract.STATIC, "the_schedule")
    assert "input is loose: it may lie at any address, with any strides" in text.partition("*/")[0]
    assert "constexpr bool input_is_loose = true;" in text
    assert "constexpr bool output_is_loose = false;" in text
    assert "constexpr int32_t input_stride[] = {1};" in text
    assert "constexpr int32_t output_stride[] = {1, 512};" in text


def test_debug_builds_check_and_release_builds_just_call(compiled):
    spoil = BREAKS["is not aligned to 128 bytes"][0]
    debug = said(compiled(Contract.STATIC), spoil, "noted_by_call")
    assert "is not aligned to 128 bytes" in debug
    assert said(compiled(Contract.STATIC, "-DRELEASE"), spoil, "noted_by_call") is None


def test_less_than_the_contract_promised_does_not_compile(compiled):
    compiled(Contract.HOST, "-DHVXTUNE_scale_PROMISED_LEVEL=1")
    with pytest.raises(Exception, match="does not imply contract 'static'"):
        compiled(Contract.STATIC, "-DHVXTUNE_scale_PROMISED_LEVEL=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("exposure", ["*image", "gain", "offset", "shift", "*out"]),
        ("edges", ["*image", "*smooth", "*slopes_0", "*slopes_1"]),
    ],
)
def test_all_arguments_of_an_upload_are_declared(name, parameters, tmp_path, monkeypatch):
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path))
    kernel = keep_pipeline(unseen_pipeline(name))
    problem = find_problem(kernel, SIZES[name], "hexagon-v66", "static")
    text = header_text("tuned", problem, Contract.STATIC, "the_schedule")
    (declared,) = re.findall(r"static inline int tuned\(([^)]*)\)", text)
    assert [one.split()[-1] for one in declared.split(", ")] == parameters
    if name == "edges":  # read by the other outputs: larger than what was chosen
        assert "smooth->dim[0].extent != 258" in text
    else:
        assert "uint8_t gain, int16_t offset, uint16_t shift" in declared
