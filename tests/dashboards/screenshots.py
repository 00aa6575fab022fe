"""Pictures for docs/dashboards.md: ``make screenshots`` (about three minutes). With ``EVERY=1``,
all pages at every width instead (:mod:`tests.dashboards.every_page`).

Tunes a few small kernels for them in a state directory of its own, so that every picture shows
what the program really does. PNG with a palette: pages have few colours, and the files stay small.
"""

from __future__ import annotations

import base64
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.dashboards.chromium import Visit, chromium
from tests.dashboards.every_page import pages, stored, take
from tests.service.served import environment, served

FOLDER = Path(__file__).parents[2] / "docs" / "img" / "pages"
WIDTHS = {"wide": (1400, 900), "narrow": (400, 800)}
TALLEST = 1500
TOP = 860
"""Height of the picture in the README, which shows the top of a job's page."""
GEMM = ("gemm_u8", "-p", "n=128", "-p", "k=128", "--contract", "static")
JOBS = (
    ("sobel_u8", "--trials", "20", "--measurer", "farm"),
    (*GEMM, "-p", "m=64", "--trials", "12"),
    ("gemm_u8", "-p", "m=64", "-p", "n=256", "-p", "k=128", "--trials", "12"),
    (*GEMM, "-p", "m=128", "--trials", "24", "--seed", "7"),
    (*GEMM, "-p", "m=128", "--trials", "60"),
)
FARM = """
[[simulator]]
name = "bench"
slots = 2
tags = ["lab-1"]
"""

PALETTE = """
async (encoded) => {
  const image = new Image();
  image.src = `data:image/png;base64,${encoded}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of data) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  // One colour of each small cube, so that a rare red is not lost to the many greys of text.
  const cubes = new Map();
  for (const [pixel, count] of [...counts].sort((a, b) => b[1] - a[1])) {
    const cube = pixel & 0xe0f0f0;
    const held = cubes.get(cube) ?? [pixel, 0];
    cubes.set(cube, [held[0], held[1] + count]);
  }
  const frequent = [...cubes.values()].sort((a, b) => b[1] - a[1]).slice(0, 256);
  const palette = frequent.map(([pixel]) => pixel);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const known = palette.map(parts);
  const place = new Map(palette.map((pixel, i) => [pixel, i]));
  const nearest = (pixel) => {
    const [r, g, b] = parts(pixel);
    let best = 0, least = Infinity;
    known.forEach(([x, y, z], i) => {
      const distance = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  };
  const indices = new Uint8Array(data.length);
  data.forEach((pixel, i) => {
    let index = place.get(pixel);
    if (index === undefined) place.set(pixel, (index = nearest(pixel)));
    indices[i] = index;
  });
  let text = "";
  for (let i = 0; i < indices.length; i += 32768) {
    text += String.fromCharCode(...indices.subarray(i, i + 32768));
  }
  return { width: image.width, height: image.height, palette: known.flat(), indices: btoa(text) };
}
"""


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file (W3C PNG, 5.3)."""
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def paletted(page: Page, png: bytes) -> bytes:
    """``png`` with at most 256 colours; an empty ``page`` of the browser decodes it."""
    found: dict[str, Any] = page.evaluate(PALETTE, base64.b64encode(png).decode())
    width, height = found["width"], found["height"]
    indices = base64.b64decode(found["indices"])
    rows = b"".join(b"\0" + indices[y * width : (y + 1) * width] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            chunk(b"IHDR", head),
            chunk(b"PLTE", bytes(found["palette"])),
            chunk(b"IDAT", zlib.compress(rows, 9)),
            chunk(b"IEND", b""),
        )
    )


def tune(state: Path, arguments: tuple[str, ...]) -> None:
    """Runs a job to its end in this state directory."""
    command = [sys.executable, "-m", "service.cli", "tune", *arguments]
    subprocess.run(command, check=True, env=environment(state), stdout=subprocess.DEVNULL)


def places(visit: Visit) -> dict[str, str]:
    """Name of a picture to the address of its page."""
    page = visit.page
    visit.go("/ui/jobs?kernel=gemm_u8")
    jobs = [
        str(link.get_attribute("href")) for link in page.locator("#jobs tbody a.row-link").all()
    ]
    visit.go("/ui/farm")
    for name in ("bench-1", "bench-2"):  # checked before they work
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name))
        row.locator(".state-ready").wait_for()
    visit.go(jobs[0])
    best = page.locator("#trials tbody a.row-link").first.get_attribute("href")
    own, other = (job.rpartition("/")[2] for job in jobs[:2])
    return {
        "jobs": "/ui/jobs",
        "kernels": "/ui/kernels",
        "submit": "/ui/submit?kernel=gemm_u8",
        "job": jobs[0],
        "trial": str(best),
        "analysis": f"{jobs[0]}/analysis",
        "schedules": "/ui/schedules",
        "compare": f"/ui/compare?own={own}&other={other}",
        "farm": "/ui/farm",
        "device": "/ui/farm/bench-1",
    }


def shoot(visit: Visit, place: str, width: int, height: int, tallest: int = TALLEST) -> bytes:
    """The page at ``place`` from its top, as far down as is of use."""
    page = visit.page
    page.set_viewport_size({"width": width, "height": height})
    visit.go(place)
    if "/trials/" in place:
        page.locator("table.listing").first.wait_for()
    page.wait_for_timeout(600)  # charts draw after the load
    visit.check()
    tall = min(tallest, max(400, int(page.evaluate("document.body.scrollHeight"))))
    return page.screenshot(clip={"x": 0, "y": 0, "width": width, "height": tall}, full_page=True)


def told_until(visit: Visit) -> int:
    """The height of a job's page down to the cost that its best hangs on."""
    box = visit.page.locator(".message.doubt").bounding_box()
    assert box, "the best of this job hangs on no cost: choose another for the picture"
    return int(box["y"] + box["height"]) + 8


def tuned(state: Path) -> None:
    """Fills the state directory with a farm and finished jobs."""
    (state / "farm.toml").write_text(FARM)
    for arguments in JOBS:
        tune(state, arguments)


def every(state: Path, folder: Path) -> None:
    """All pages over ``state`` at every width, light and dark, into ``folder``."""
    with chromium() as browser, served(state) as service:
        visit = Visit.begin(browser.new_page(), service.url)
        visit.log_in(service.token)
        shown = places(visit)
        with stored(state) as own:
            take(browser, service, pages(own, shown), folder)


def main() -> int:
    """Makes them all anew; into the folder after ``--every`` all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        tuned(state)
        if sys.argv[1:2] == ["--every"]:
            every(state, Path(sys.argv[2]))
            return 0
        with chromium() as browser, served(state) as service:
            for name, (width, height) in WIDTHS.items():
                for scheme in ("light", "dark") if name == "wide" else ("light",):
                    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
                    visit = Visit.begin(context.new_page(), service.url)
                    visit.log_in(service.token)
                    blank = context.new_page()
                    blank.goto("about:blank")
                    for picture, place in places(visit).items():
                        if scheme == "dark" and picture != "job":
                            continue
                        png = paletted(blank, shoot(visit, place, width, height))
                        end = f"{name}-dark" if scheme == "dark" else name
                        (FOLDER / f"{picture}-{end}.png").write_bytes(png)
                        if (picture, end) == ("job", "wide"):
                            top = shoot(visit, place, width, height, TOP)
                            (FOLDER / "job-top.png").write_bytes(paletted(blank, top))
                            sure = shoot(visit, place, width, height, told_until(visit))
                            (FOLDER / "job-doubt.png").write_bytes(paletted(blank, sure))
                    context.close()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[2]))
    sys.exit(main())
