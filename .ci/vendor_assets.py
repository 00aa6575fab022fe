"""Fetches the browser code under dashboards/static/vendor anew: `make vendor-assets`.

`vendor.json` there names packages, versions, the files taken from them and their digests. A
package comes by name through the machine's own npm client; a file whose digest differs is refused,
unless `--accept` writes the new digests down (after a version was raised in vendor.json).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "dashboards" / "static" / "vendor"
LIST = FOLDER / "vendor.json"


def fetched(package: str, version: str, folder: Path) -> Path:
    """The package's archive in ``folder``."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return folder / done.stdout.split()[-1]


def main(accept: bool) -> int:
    listed = json.loads(LIST.read_text())
    wrong = []
    for package, entry in listed["packages"].items():
        with (
            tempfile.TemporaryDirectory() as folder,
            tarfile.open(fetched(package, entry["version"], Path(folder))) as archive,
        ):
            for name, file in entry["files"].items():
                member = archive.extractfile(f"package/{file['from']}")
                data = b"" if member is None else member.read()
                digest = hashlib.sha256(data).hexdigest()
                if accept:
                    file["sha256"] = digest
                if file["sha256"] == digest:
                    (FOLDER / name).write_bytes(data)
                else:
                    wrong.append(f"{package}@{entry['version']} {file['from']}: {digest}")
    if accept:
        LIST.write_text(json.dumps(listed, indent=2) + "\n")
    for line in wrong:
        sys.stderr.write(f"not what vendor.json names: {line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("--accept" in sys.argv[1:]))
