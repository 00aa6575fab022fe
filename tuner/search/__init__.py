"""Search: samplers propose configs, the loop hands them out, and results feed back.

``proposer`` wraps an in-memory Optuna study (rebuilt from the trial rows on resume) and keeps
proposals valid and new; ``evaluation`` takes one candidate through compile, dedupe and
measurement; ``loop`` runs a job with several candidates in flight; ``stopping`` knows when it is
over; ``samplers`` is the registry.
"""
