"""The embedded simulator: qemu-hexagon with a plugin that counts and times packets.

``simulator`` finds QEMU, which :mod:`tuner.machine.provision` fetches or builds. ``simulation``
links a candidate with the harness, runs it and checks it; ``session`` is the memory shared with the
plugin (``plugin/``, C); ``model`` reads the timing model (``v66.toml``), ``events`` and ``cycles``
make cycles of counts. ``measurer`` joins them, ``device`` is the kind of device, ``explain`` says
where cycles go, ``calibration`` fits the model to a machine.
"""
