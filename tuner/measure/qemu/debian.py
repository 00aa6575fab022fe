"""Fetches a Debian or Ubuntu package and the libraries it needs, without root.

Uses the machine's own apt configuration and keys, with package lists and downloads in a private
folder, so that it works where no package list was ever fetched and nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tuner.errors import ToolchainError

_UPDATE_SECONDS = 600
_DOWNLOAD_SECONDS = 900


class PrivateApt:
    """apt-get with state and cache under ``folder``, which must exist."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise ToolchainError("there is no apt-get on this machine to fetch packages with")
        self._archives = folder / "archives"
        for needed in ("state/lists/partial", "archives/partial"):
            (folder / needed).mkdir(parents=True, exist_ok=True)
        settings = {
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
        self._options = [f"-o{name}={value}" for name, value in settings.items()]

    def update(self) -> None:
        """Fetches the package lists. One broken source of several does no harm."""
        self._run(["apt-get", "update"], _UPDATE_SECONDS)

    def versions(self, package: str) -> list[str]:
        """The versions the sources offer, the one apt prefers first."""
        policy = self._run(["apt-cache", "policy", package], _UPDATE_SECONDS).stdout
        preferred = [
            line.split(":", 1)[1].strip()
            for line in policy.splitlines()
            if line.strip().startswith("Candidate:")
        ]
        table = self._run(["apt-cache", "madison", package], _UPDATE_SECONDS).stdout
        offered = [line.split("|")[1].strip() for line in table.splitlines() if "|" in line]
        return [v for v in dict.fromkeys([*preferred, *offered]) if v in offered]

    def download(self, package: str, version: str) -> list[Path]:
        """The package and what it needs that the system lacks, as package files.

        Raises ``ToolchainError`` with apt's first complaint.
        """
        for old in self._archives.glob("*.deb"):
            old.unlink()
        command = [
            *("apt-get", "install", "--download-only", "--reinstall", "--yes"),
            *("--no-install-recommends", "--allow-downgrades", f"{package}={version}"),
        ]
        done = self._run(command, _DOWNLOAD_SECONDS)
        files = sorted(self._archives.glob("*.deb"))
        if done.returncode or not any(file.name.startswith(f"{package}_") for file in files):
            lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            reason = lines[0].removeprefix("E:").strip() if lines else "no package came"
            raise ToolchainError(f"apt-get could not fetch {package} {version}: {reason}")
        return files

    def _run(self, command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        try:
            return subprocess.run(
                [program, *self._options, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolchainError(
                f"{program} {arguments[0]} took longer than {seconds} s",
                next_step="check the network and the machine's apt sources",
            ) from None


def unpack(packages: Iterable[Path], program: str, folder: Path) -> None:
    """Takes the file ``program`` and every shared library out of ``packages`` into ``folder``.

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
                if name == program or ".so" in PurePosixPath(name).suffixes:
                    _take(archive, member, folder / name)


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    if member.issym():
        place.unlink(missing_ok=True)
        place.symlink_to(PurePosixPath(member.linkname).name)
        return
    content = archive.extractfile(member)
    if content is not None:
        with content, place.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        place.chmod(0o755)
