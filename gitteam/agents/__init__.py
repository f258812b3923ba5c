"""The team's agents: the loop around a model, what it may do, and how many of them live side by side."""
