"""Every registered kernel conforms."""

from pathlib import Path

import pytest

from tuner.conformance.kernels import KernelCodeConformance, KernelConformance
from tuner.errors import UserError
from tuner.kernels import Kernel, find_kernel, kernel_names


class OfEveryKernel:
    @pytest.fixture(params=kernel_names())
    def kernel(self, request: pytest.FixtureRequest) -> Kernel:
        return find_kernel(request.param)


class TestRegisteredKernels(OfEveryKernel, KernelConformance):
    pass


@pytest.mark.slow
class TestCodeOfRegisteredKernels(OfEveryKernel, KernelCodeConformance):
    pass


def test_a_name_almost_right_is_answered_with_the_right_one() -> None:
    with pytest.raises(UserError, match="did you mean gemm_u8"):
        find_kernel("gem_u8")


def test_every_kernel_is_in_the_documents() -> None:
    page = (Path(__file__).parents[3] / "docs" / "kernels.md").read_text()
    assert [name for name in kernel_names() if f"`{name}`" not in page] == []
