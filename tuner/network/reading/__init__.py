"""Model files as graphs. ``model_file`` opens one of any format: ``contained`` has a confined
``process`` read it.

For each format, ``FORMAT_file`` opens it within ``limits``, ``FORMAT_reader`` makes the graph by
``FORMAT_rules``, one for each operator, of ``FORMAT_values``. What formats have in common is in
``building``.
"""
