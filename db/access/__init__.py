"""Access: tokens, sessions, who sees what, the audit and the use of quotas."""
