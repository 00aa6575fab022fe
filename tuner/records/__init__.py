"""Plain records of what became of candidates: trials, promotions, results of jobs."""
