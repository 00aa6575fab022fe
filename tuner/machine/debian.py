"""Fetches a Debian or Ubuntu package and the libraries it needs, without root.

Uses the machine's own apt configuration and keys, with package lists and downloads in a private
folder, so that it works where no package list was ever fetched and nothing is installed.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tuner.errors import ToolchainError

_SHARED_LIBRARY = re.compile(r"(lib|ld-).*\.so(\.[\d.]+)?")
_RUN_SECONDS = 900
"""Longest time for one apt command: the package lists of a slow network."""


class PrivateApt:
    """apt-get with state and cache under ``folder``, which is created.

    ``sources`` are lines that replace the machine's sources. With them nothing counts as
    installed, so that downloads are complete: another release's programs need its own libc.
    Packages come from the release ``prefer`` where it has them, such as ``bookworm-backports``.
    ``reached`` is told how many percent of a download have come, from another thread. What is in
    ``folder`` already is not downloaded again; files that came in part are continued.
    """

    def __init__(
        self,
        folder: Path,
        sources: Iterable[str] = (),
        prefer: str = "",
        reached: Callable[[float], None] = lambda percent: None,
    ) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise ToolchainError("this machine lacks apt-get, which would fetch packages")
        self._reached = reached
        self._archives = folder / "archives"
        for needed in ("state/lists/partial", "archives/partial"):
            (folder / needed).mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "Dir::State": folder / "state",
            "Dir::State::status": "/var/lib/dpkg/status",
            "Dir::Cache": folder,
            "Dir::Cache::archives": self._archives,
            "Dir::Log": folder,
            "Debug::NoLocking": "1",
            "Acquire::Retries": "3",
            "Acquire::Languages": "none",
            # As root apt would download as the user _apt, who may not write here.
            "APT::Sandbox::User": "root",
        }
        lines = list(sources)
        if lines:
            (folder / "sources.list").write_text("\n".join(lines) + "\n")
            (folder / "status").touch()
            settings["Dir::State::status"] = folder / "status"
            settings["Dir::Etc::SourceList"] = folder / "sources.list"
            settings["Dir::Etc::SourceParts"] = "/dev/null"
        if prefer:
            settings["APT::Default-Release"] = prefer
        self._options = [f"-o{name}={value}" for name, value in settings.items()]

    def update(self) -> None:
        """Fetches the package lists. One broken source of several does no harm."""
        self._run("apt-get", "update")

    def version(self, package: str) -> str | None:
        """The version of ``package`` apt would install, ``None`` if the sources have none."""
        policy = self._run("apt-cache", "policy", package).stdout
        found = re.search(r"^\s*Candidate: (\S+)$", policy, re.MULTILINE)
        return found[1] if found and found[1] != "(none)" else None

    def download(self, *packages: str) -> list[Path]:
        """The packages and what they need that is not installed, as package files.

        Raises ``ToolchainError`` with apt's first complaint.
        """
        command = ("install", "--download-only", "--reinstall", "--yes", "--no-install-recommends")
        done = self._run("apt-get", *command, *packages)
        files = sorted(self._archives.glob("*.deb"))
        came = {file.name.partition("_")[0] for file in files}
        if done.returncode or not came.issuperset(packages):
            raise _not_fetched(packages, done.stderr)
        return files

    def fetch(self, *packages: str) -> list[Path]:
        """The packages alone, without what they need, as package files in this order.

        Raises ``ToolchainError`` with apt's first complaint.
        """
        done = self._run("apt-get", "download", *packages, folder=self._archives)
        files = [file for name in packages for file in self._archives.glob(f"{name}_*.deb")]
        if done.returncode or len(files) != len(packages):
            raise _not_fetched(packages, done.stderr)
        return files

    def sources_of_release(self, release: str, *, with_backports: bool = False) -> list[str]:
        """The machine's own sources, pointed at another ``release`` of the same distribution.

        Empty if the machine runs that release already, unless its backports are wanted as well.
        The lists must have been fetched.
        """
        system = platform.freedesktop_os_release()
        if system.get("VERSION_CODENAME") == release and not with_backports:
            return []
        options = _signed_by(system["ID"])
        lines = []
        for address, pocket, component in self._archives_of(system["ID"]):
            suites = [release + pocket]
            if not pocket and with_backports:
                suites.append(f"{release}-backports")
            lines += [f"deb {options}{address} {name} {component}" for name in suites]
        return list(dict.fromkeys(lines))

    def source_lines(self, suites: Iterable[str]) -> list[str]:
        """Lines for the source packages of Debian's ``suites``, in the archive that the machine's
        own packages come from. Empty if that is not Debian's, or its lists were never fetched."""
        options = _signed_by("debian")
        lines = [
            f"deb-src {options}{address} {name} {component}"
            for address, pocket, component in self._archives_of("debian")
            if not pocket and component == "main"
            for name in suites
        ]
        return list(dict.fromkeys(lines))

    def _archives_of(self, distribution: str) -> Iterator[tuple[str, str, str]]:
        """The archives of ``distribution`` among the machine's sources: address, pocket (empty,
        ``-updates`` or ``-security``) and component. Their releases go by other names in places:
        a machine that runs Debian's sid calls itself by the codename of the next release."""
        for address, suite, component, origin in self._indices():
            _, dash, pocket = suite.partition("-")
            if origin.lower() == distribution and pocket in ("", "updates", "security"):
                yield address, dash + pocket, component

    def _indices(self) -> list[list[str]]:
        """Address, release, component and origin of each list of packages that was fetched."""
        form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
        rows = self._run(
            "apt-get", "indextargets", "--format", form, "Created-By: Packages"
        ).stdout.splitlines()
        return [row.split(" ", 3) for row in rows if row.count(" ") > 2]

    def download_source(self, package: str, version: str, folder: Path) -> str | None:
        """Puts the upstream tarball of a source package into ``folder``, as apt checked it; gives
        apt's complaint if it did not come."""
        command = ("source", "--download-only", "--tar-only", f"{package}={version}")
        done = self._run("apt-get", *command, folder=folder)
        if done.returncode == 0:
            return None
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "  "))]
        return " ".join(line.removeprefix("E:").strip() for line in lines[:2])[:300] or "no word"

    def _run(
        self, program: str, *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        told, telling = os.pipe()
        follower = threading.Thread(target=self._follow, args=[told], daemon=True)
        follower.start()
        try:
            return subprocess.run(
                [program, *self._options, f"-oAPT::Status-Fd={telling}", *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
                pass_fds=[telling],
                timeout=_RUN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolchainError(
                f"{program} {arguments[0]} took longer than {_RUN_SECONDS} s",
                next_step="check the network and the machine's apt sources",
            ) from None
        finally:
            os.close(telling)
            follower.join(timeout=1)  # a child that was left behind may hold the pipe

    def _follow(self, told: int) -> None:
        """Passes on lines such as ``dlstatus:3:41.7:Retrieving file 3 of 12``."""
        with open(told, errors="replace") as lines:
            for line in lines:
                kind, _, rest = line.partition(":")
                if kind == "dlstatus":
                    with suppress(ValueError):
                        self._reached(float(rest.split(":")[1]))


def _not_fetched(packages: Iterable[str], said: str) -> ToolchainError:
    lines = [line for line in said.splitlines() if line.startswith("E:")]
    reason = lines[0].removeprefix("E:").strip() if lines else "no package came"
    return ToolchainError(
        f"apt-get could not fetch {' '.join(packages)}: {reason}",
        next_step="check the network and the machine's apt sources",
    )


def _signed_by(distribution: str) -> str:
    """The option that names the distribution's keys, where they are a file of their own."""
    keys = Path(f"/usr/share/keyrings/{distribution}-archive-keyring.gpg")
    return f"[signed-by={keys}] " if keys.exists() else ""


def unpack(packages: Iterable[Path], programs: Collection[str], folder: Path) -> None:
    """Takes the files ``programs`` and every shared library out of ``packages`` into ``folder``.

    Directories are not kept: names of libraries are unique.
    """
    for package in packages:
        command = [shutil.which("dpkg-deb") or "dpkg-deb", "--fsys-tarfile", str(package)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as unpacker,
            tarfile.open(fileobj=unpacker.stdout, mode="r|") as archive,
        ):
            for member in archive:
                name = PurePosixPath(member.name).name
                runs = member.issym() or member.mode & 0o111  # unlike a note of the same name
                if (name in programs and runs) or _SHARED_LIBRARY.fullmatch(name):
                    _take(archive, member, folder / name)


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    if member.issym():
        target = PurePosixPath(member.linkname).name
        if target != place.name:  # a link into another directory, whose file comes as well
            place.unlink(missing_ok=True)
            place.symlink_to(target)
        return
    content = archive.extractfile(member)
    if content is not None:
        with content, place.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        place.chmod(0o755)
