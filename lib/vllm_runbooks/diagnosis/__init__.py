"""`diagnose`: causes and ways out."""
