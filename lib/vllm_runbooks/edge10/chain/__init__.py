"""The chain from checkpoint to judged accuracy, run with open parts."""
