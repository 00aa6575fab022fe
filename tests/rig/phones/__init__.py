"""Emulated phones: what a farm of Android devices is tested with where there is no phone.

Real: adb and adbd, as Debian packages them (34.0.5), over TCP on loopback; processes, signals,
files and a full disk, in namespaces of the phone's own; uid 2000.

Stand-ins, and only that:

- ``run_main_on_hexagon`` runs shared objects with a small loader (``loader/``) under qemu-hexagon:
  no FastRPC, no DSP, no second processor. Its messages and statuses follow the real tool's.
- the clock of the DSP is the number of packets that QEMU executed: no caches, no stalls, no memory.
  It is exact and the same every run, so that what the fault switch adds is all there is to find.
- the shell's tools are busybox's, not toybox's; ``getprop`` prints a file; sensors are files.
- unproven here: USB, adb's authentication, SELinux, unsigned process domains, real heat.

``rig`` starts phones and an adb server for a test, ``faults`` are the positions of a phone's
switch, ``phone`` is a phone, ``boot`` its first process. Where a phone cannot be had tests skip
and say why; with ``HVXTUNE_REQUIRE_RIG`` set, as CI does, they fail.
"""

from tests.rig.phones.faults import Fault, Setting
from tests.rig.phones.phone import TOOL, Model, Phone
from tests.rig.phones.rig import AdbServer, require_rig, running_phones, shared_object

__all__ = [
    "TOOL",
    "AdbServer",
    "Fault",
    "Model",
    "Phone",
    "Setting",
    "require_rig",
    "running_phones",
    "shared_object",
]
