"""Builds qemu-hexagon with plugins from QEMU's sources, without root.

The sources are those of tuner/measure/qemu/sources.toml, or a tarball of the user's. All happens in
a folder of its own, ``.building``, from which a stopped build resumes: it keeps downloads, unpacked
sources and objects, and each part carries its name only when it is whole. The finished program
leaves it by one rename; then the folder goes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import ToolchainError, UserError
from tuner.machine.build_tools import BuildTools, build_tools
from tuner.machine.debian import PrivateApt
from tuner.machine.steps import Steps
from tuner.measure.qemu.simulator import (
    BUILT_PREFIX,
    PROGRAM,
    Simulator,
    command_of,
    probe,
    release_of,
)
from tuner.measure.qemu.sources import build_wheels, qemu_sources

WORKSHOP = ".building"
"""The folder of a build that is not done, beside the programs."""
OPTIONS = (
    "--target-list=hexagon-linux-user",
    "--enable-plugins",
    "--without-default-features",
    "--disable-system",
    "--disable-docs",
    "--disable-debug-info",
    "--disable-install-blobs",
    "--disable-download",
)
"""For QEMU's configure: the one program, plugins, and nothing that would need the network."""
_FIRST_RELEASE = (8, 1)
"""The first with v68 to v73: an older one is worth no build, as packages of it are there."""
_BUILD_SECONDS = 3600
_SUITES = ("forky", "sid", "trixie")
"""Debian's suites whose indices have the versions of ``sources.toml``."""
_ACCEPTED = "a release tarball of QEMU 8.1 or newer, or the upstream tarball of Debian's package"


def fetch_source(home: Path, archs: Sequence[str], steps: Steps) -> Path:
    """The tarball of the first source that runs ``archs`` and is served, in ``home``'s workshop.

    Raises ``ToolchainError`` if none is, with what apt said about each.
    """
    folder = home / WORKSHOP / "sources"
    serving = [one for one in qemu_sources() if set(archs) <= {*one.runs}]
    for source in serving:
        if (folder / source.file).exists() and _digest(folder / source.file) == source.sha256:
            return folder / source.file
    folder.mkdir(parents=True, exist_ok=True)
    steps.begin("fetching Debian's lists of source packages")
    own = PrivateApt(home / WORKSHOP / "apt")
    lines = own.source_lines(_SUITES)
    if not lines:  # no list was ever fetched here
        own.update()
        lines = own.source_lines(_SUITES)
    failures = ["the machine's apt sources name no archive of Debian"] if not lines else []
    if lines:
        apt = PrivateApt(home / WORKSHOP / "apt-sources", lines, reached=steps.reached)
        apt.update()
        for source in serving:
            steps.begin(f"fetching the source of QEMU {source.version}")
            complaint = apt.download_source("qemu", source.version, folder)
            tarball = folder / source.file
            if complaint is None and tarball.exists():
                require_digest(tarball)
                return tarball
            failures.append(f"{source.version}: {complaint or 'another file came'}")
    raise ToolchainError(
        f"the source of QEMU cannot be fetched: {'; '.join(failures)}",
        accepted=", ".join(f"{one.file} (SHA-256 {one.sha256[:12]}...)" for one in serving),
        next_step="download one of these, or a release tarball of QEMU, and run "
        "`hvxtune setup --qemu FILE`",
    )


def require_digest(tarball: Path) -> None:
    """``UserError`` for a file that is called like a known source and is another one."""
    for source in qemu_sources():
        if tarball.name == source.file and tarball.exists():
            found = _digest(tarball)
            if found != source.sha256:
                raise UserError(
                    f"{tarball} is not the source of QEMU {source.version}: its SHA-256 is {found}",
                    accepted=source.sha256,
                    next_step="remove it and download it again",
                )


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def build_from(tarball: Path, home: Path, steps: Steps) -> Simulator:
    """Builds the sources in ``tarball`` and puts the program into ``home``, which nobody else
    changes meanwhile.

    Raises ``UserError`` for another file or an older QEMU, ``ToolchainError`` for tools that
    are unavailable and a failed build. What was done by then is kept for the next time.
    """
    workshop = home / WORKSHOP
    workshop.mkdir(exist_ok=True)
    source, version = _unpacked(tarball, workshop, steps)
    log = home / "build.log"
    tools = _tools(source, workshop, steps)
    program = _compiled(source, version, tools, log, steps)
    ready = workshop / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    shutil.copy2(program, ready / PROGRAM)
    _copy_libraries(ready / PROGRAM, tools.libraries, ready)
    found = probe(command_of(ready / PROGRAM))
    place = home / f"{BUILT_PREFIX}{'.'.join(map(str, found.release))}"
    if place.exists():
        place.rename(workshop / f"replaced-{os.getpid()}")
    ready.rename(place)
    log.unlink(missing_ok=True)
    shutil.rmtree(workshop, ignore_errors=True)
    return probe(command_of(place / PROGRAM))


def _unpacked(tarball: Path, workshop: Path, steps: Steps) -> tuple[Path, str]:
    """The source folder of ``tarball``, and its version."""
    if not tarball.is_file():
        raise UserError(f"no such file: {tarball}", accepted=_ACCEPTED)
    require_digest(tarball)
    place = workshop / f"source-{_digest(tarball)[:16]}"
    if not place.exists():
        steps.begin(f"unpacking {tarball}")
        partial = workshop / "source.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with tarfile.open(tarball) as archive:
                if hasattr(tarfile, "data_filter"):  # Python 3.11.4; Debian 12 has 3.11.2
                    archive.extractall(partial, filter="data")
                else:
                    archive.extractall(partial, members=_inside(archive))  # noqa: S202
        except (tarfile.TarError, EOFError) as error:
            shutil.rmtree(workshop, ignore_errors=True)
            raise UserError(f"{tarball} cannot be unpacked: {error}", accepted=_ACCEPTED) from None
        partial.rename(place)
    for file in place.glob("*/VERSION"):
        source, version = file.parent, file.read_text().strip()
        if (source / "target/hexagon").is_dir() and (source / "configure").exists():
            if release_of(f"version {version}") < _FIRST_RELEASE:
                shutil.rmtree(place, ignore_errors=True)
                raise UserError(
                    f"{tarball} holds QEMU {version}, which runs no more than v66",
                    accepted=_ACCEPTED,
                    next_step="run `hvxtune setup` for v66, which fetches one",
                )
            _stand_in_for_blobs(source)
            return source, version
    shutil.rmtree(place, ignore_errors=True)
    raise UserError(f"{tarball} holds no QEMU with a Hexagon target", accepted=_ACCEPTED)


def _inside(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of ``archive``; ``TarError`` for one that would lie outside its folder."""
    for member in archive:
        if member.name.startswith("/") or ".." in Path(member.name).parts:
            raise tarfile.TarError(f"{member.name} lies outside")
        yield member


def _stand_in_for_blobs(source: Path) -> None:
    """Empty device trees, which Debian leaves out, meson looks for, and nothing here uses."""
    for tree in (source / "pc-bios/dtb").glob("*.dts"):
        blob = tree.with_suffix(".dtb")
        if not blob.exists():
            blob.touch()


def _tools(source: Path, workshop: Path, steps: Steps) -> BuildTools:
    bundled = any((source / "python/wheels").glob("*.whl")) and shutil.which("ninja") is not None
    wheels = {} if bundled else build_wheels()
    return build_tools(workshop / "tools", wheels, steps)


def _compiled(source: Path, version: str, tools: BuildTools, log: Path, steps: Steps) -> Path:
    """The program built from ``source``; what the tools say goes to ``log``."""
    folder = source.parent / "build"
    configured = folder / "configured"
    if not configured.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        log.write_bytes(b"")
        steps.begin(f"configuring QEMU {version}")
        command = [str(source / "configure"), f"--python={tools.python}", *OPTIONS]
        _run(command, folder, tools.environment, log)
        configured.touch()
    steps.begin(f"compiling {PROGRAM} {version} (two to five minutes on two cores)")
    _run(["ninja", PROGRAM], folder, tools.environment, log, steps)
    return folder / PROGRAM


def _run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    steps: Steps | None = None,
) -> None:
    """Runs ``command``, whose process group ends with this call however it ends; tells ``steps``
    what ninja writes about its progress (``[17/396] ...``)."""
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process,
    ):
        late = threading.Timer(_BUILD_SECONDS, _end, [process])
        late.start()
        try:
            assert process.stdout is not None  # noqa: S101
            for line in process.stdout:
                output.write(line)
                done = re.match(rb"\[(\d+)/(\d+)\]", line)
                if steps is not None and done:
                    steps.reached(100 * int(done[1]) / int(done[2]))
            process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            in_time = late.is_alive()
            late.cancel()
    if not in_time:
        raise ToolchainError(f"{command[0]} took longer than {_BUILD_SECONDS} s")
    if process.returncode:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if re.search(r"\berror: ", line, re.IGNORECASE)]
        reason = errors[-1] if errors else lines[-1] if lines else "it says nothing"
        raise ToolchainError(
            f"{Path(command[0]).name} failed: {reason[:300]}", next_step=f"see {log}"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _copy_libraries(program: Path, libraries: Path, place: Path) -> None:
    """Puts beside ``program`` what it needs, directly or not, of ``libraries``: those that the
    machine lacks."""
    waiting, seen = [program], set[str]()
    while waiting:
        for name in _needed(waiting.pop()):
            if name not in seen and (libraries / name).exists():
                seen.add(name)
                shutil.copy(libraries / name, place / name)
                waiting.append(place / name)


def _needed(file: Path) -> list[str]:
    """The shared libraries that an ELF file names; none for another file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    try:
        with file.open("rb") as content:
            section = ELFFile(content).get_section_by_name(".dynamic")
            if not isinstance(section, DynamicSection):
                return []
            tags: list[Any] = list(section.iter_tags("DT_NEEDED"))
            return [str(tag.needed) for tag in tags]
    except ELFError:
        return []
