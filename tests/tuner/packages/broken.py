"""A good package in a folder, to be broken in one place."""

from __future__ import annotations

from pathlib import Path

from tuner.packages.files import read_folder
from tuner.packages.kernel import PackageKernel
from tuner.packages.skeletons import write_skeleton


def good_package(folder: Path, kind: str = "c") -> Path:
    """The skeleton of ``kind`` in ``folder``."""
    write_skeleton(kind, folder)
    return folder


def edit(folder: Path, old: str, new: str, name: str = "kernel.toml") -> None:
    """Replaces ``old``, which is there, in a file of the package."""
    path = folder / name
    text = path.read_text()
    assert old in text, f"{old!r} is not in {name}"
    path.write_text(text.replace(old, new, 1))


def line_of(folder: Path, part: str, name: str = "kernel.toml") -> int:
    """The number of the first line of a file that holds ``part``."""
    lines = (folder / name).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


def opened(folder: Path) -> PackageKernel:
    """The kernel, checked as far as it is without a build."""
    return PackageKernel(read_folder(folder))


PLAIN = """
#include <stdint.h>
void blur(const uint8_t *src, int src_stride, uint8_t *dst, int dst_stride, int width, int height) {
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            const uint8_t *at = src + y * src_stride + x;
            dst[y * dst_stride + x] = (at[0] + 2 * at[src_stride] + at[2 * src_stride] + 2) >> 2;
        }
}
enum { rows = ROWS, unroll = UNROLL };
"""
EVERY = 'contracts = ["none", "host", "stride", "extent", "static"]'


def plain_package(folder: Path) -> Path:
    """The skeleton without intrinsics: right wherever buffers lie."""
    good_package(folder)
    edit(folder, 'contracts = ["stride", "extent", "static"]', EVERY)
    (folder / "blur.c").write_text(PLAIN)
    return folder
