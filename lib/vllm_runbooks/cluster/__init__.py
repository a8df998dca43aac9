"""Several nodes at work: a process of ours on each, what carries questions to it, and what is measured between them."""
