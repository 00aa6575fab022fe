"""A farm of measuring devices: which there are, how they are, and who gets which candidate when.

- ``device`` is the contract of a device: it runs bundles and says how it is, and keeps no policy.
- ``farm_file``, ``settings``, ``kinds``: which there are. A new kind is one line in ``kinds``.
- ``states``, ``roster``: how they stand and who holds them; ``memory_roster`` here, SQL in ``db``.
- ``health``, ``gold``, ``caretaker``: when devices are checked, by what, and who does it.
- ``orders``, ``driver``, ``verdicts``, ``measurer``: work shared out, and what results are worth.
"""

from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Device,
    DeviceReport,
    Sampled,
)

__all__ = ["Bundle", "Device", "DeviceReport", "Sampled", "BundleEntry"]
