"""Operands packed ahead of time: the layout is what is declared, and products do not change."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tuner.codegen.toolchain import NativePart, built
from tuner.kernels import find_kernel
from tuner.kernels.gemm_u8_packed import pack_quads

PAIRS = [("gemm_u8", "gemm_u8_packed"), ("gemm_i8", "gemm_i8_packed")]
EXTENT = st.integers(1, 9)
PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"
IN_C = """
__attribute__((visibility("default"))) void
pack(const unsigned char *b, int k, int n, int stride, unsigned char *packed) {
    %s
}
"""


@pytest.mark.parametrize(("plain", "packed"), PAIRS)
@given(data=st.data(), m=EXTENT, n=EXTENT, k=EXTENT)
def test_products_with_b_packed_are_those_with_b_as_it_was(
    plain: str, packed: str, data: st.DataObject, m: int, n: int, k: int
) -> None:
    kernel, params = find_kernel(plain), {"m": m, "n": n, "k": k}
    a, b = (data.draw(arrays(s.dtype, s.shape)) for s in kernel.buffers(params)[:2])
    (wanted,) = kernel.reference(params, [a, b])
    (made,) = find_kernel(packed).reference(params, [a, pack_quads(b)])
    np.testing.assert_array_equal(made, wanted)


def shown(language: str) -> str:
    """The one block of that language on the page about kernels."""
    (found,) = re.findall(rf"^```{language}$(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return found


def test_the_python_shown_runs() -> None:
    exec(shown("python"), {})  # noqa: S102 - a page of our own


@pytest.mark.slow
def test_the_c_shown_packs_alike(tmp_path: Path) -> None:
    source = tmp_path / "pack.c"
    source.write_text(IN_C % shown("c"))
    library = ctypes.CDLL(str(built(NativePart("pack", "host", (source,)))))
    for k, n, beyond in ((1, 1, 0), (7, 5, 3), (8, 33, 0)):
        b = np.random.default_rng(k).integers(0, 256, (k, n), np.uint8)
        wanted = pack_quads(b)
        made = np.zeros((len(wanted), 4 * n + beyond), np.uint8)
        addresses = (ctypes.c_void_p(array.ctypes.data) for array in (b, made))
        library.pack(next(addresses), k, n, 4 * n + beyond, next(addresses))
        np.testing.assert_array_equal(made[:, : 4 * n], wanted)
