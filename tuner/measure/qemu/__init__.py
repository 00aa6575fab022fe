"""The embedded simulator: qemu-hexagon with a plugin that counts and times packets.

``provision`` fetches QEMU where it is missing, ``simulator`` finds it. ``program`` links a
candidate with the harness, ``launch`` runs it, ``session`` is the memory shared with the plugin
(``plugin/``, C), ``rules`` the timing parameters it works by (``v66.toml``), ``timing`` and
``verdict`` what came of it. ``measurer`` joins them.
"""
