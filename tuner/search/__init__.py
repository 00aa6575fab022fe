"""Search: samplers propose configs, the loop hands them out, and results feed back.

``samplers`` is the registry; ``proposer`` wraps an in-memory Optuna study (rebuilt from the trial
rows on resume) and keeps proposals valid and new; ``evaluation`` takes one candidate through
compile, dedupe and measurement; ``loop`` runs a job with several candidates in flight; ``ladder``
promotes the best of them to a higher fidelity, by what ``ranking`` predicts; ``stopping`` and
``remaining`` decide when it is over. ``transfer`` gives a search the results of a near problem,
``allocation`` shares one budget among several searches.
"""
