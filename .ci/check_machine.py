"""Says in one line why this machine cannot hold the environment, before anything is fetched.

Runs on whatever ``python3`` is there, so it keeps to syntax that old Pythons read too.
"""

import importlib.util
import platform
import sys

OLDEST, NEWEST = (3, 11), (3, 13)
"""The Pythons that the pinned halide wheel is built for. Where only a newer one is installed,
set-up fetches one (fitting_python.py)."""


def complaint():
    """The reason, or an empty string if all is well."""
    version = sys.version_info[:2]
    if version < OLDEST:
        return (
            "Python %d.%d found. accepted: 3.11 or newer. "
            "Install one and run: make setup PYTHON=python3.11" % version
        )
    machine = "%s %s" % (platform.system(), platform.machine())
    if machine != "Linux x86_64":
        return "%s found. accepted: Linux x86_64, the only one with Halide wheels." % machine
    for module in ("venv", "ensurepip") if version <= NEWEST else ():
        if importlib.util.find_spec(module) is None:
            return "Python has no %s. Run: apt-get install python3-venv" % module
    return ""


if __name__ == "__main__":
    reason = complaint()
    if reason:
        sys.exit("hvxtune set-up: " + reason)
