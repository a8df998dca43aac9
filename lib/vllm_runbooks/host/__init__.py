"""What is read off this host while something starts: GPU memory, ports, processes, and what earlier starts left."""
