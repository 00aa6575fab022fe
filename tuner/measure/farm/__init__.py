"""A farm of measuring devices: what each must do, and later who gets which candidate when.

A device runs batches of candidates and says how it is; it keeps no policy. Leases, health,
statistics and the sharing out of work are the farm's.
"""

from tuner.measure.farm.device import Batch, Device, DeviceReport, Sampled, Task

__all__ = ["Batch", "Device", "DeviceReport", "Sampled", "Task"]
