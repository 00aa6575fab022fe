"""Jobs: runs one, a set of them, or a single config, and tells the result.

``tuning`` is the way of a job from its request to its result; ``set_tuning`` shares one budget
among the jobs of a set; ``one_config`` compiles, measures or explains a config outside of any job.
``job_result`` is what a job found, ``headline`` what that is compared with; ``batch_progress`` and
``plan_totals`` sum up the jobs of a network. ``keywords`` and ``choices`` describe the options.
"""
