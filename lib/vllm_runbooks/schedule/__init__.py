"""`schedule`: scheduled runs.

`jobs` stores them, `units` and `jupyter` write the timers that call `wake.turn`, which finds due
runs with `cron` and `policy`. `runs` executes them, `changes` and `reports` report them. `web`
sends requests, `alerts` writes alert rules.
"""
