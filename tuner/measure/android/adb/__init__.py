"""The adb server's protocol over asyncio: deadlines everywhere, frames read strictly.

The program ``adb`` only starts the server. Its own client is not used: it answers status 0 where
adbd died in the middle of a command, and takes five times as long for a short one.
"""

from tuner.measure.android.adb.client import AdbClient, Address, Push
from tuner.measure.android.adb.frames import ProtocolError, RefusedError, ShellOutput, Stat
from tuner.measure.android.adb.server import AdbServer, find_adb

__all__ = [
    "AdbClient",
    "AdbServer",
    "Address",
    "ProtocolError",
    "Push",
    "RefusedError",
    "ShellOutput",
    "Stat",
    "find_adb",
]
