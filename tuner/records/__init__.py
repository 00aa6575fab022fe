"""Plain records of candidates and their outcomes: trials and promotions."""
