"""Plain records of what became of candidates: trials and promotions."""
