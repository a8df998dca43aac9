"""Chain from a checkpoint to its measured accuracy, with open-source components."""
