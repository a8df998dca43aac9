"""`schedule`: scheduled runs.

`jobs` stores them, `units` and `jupyter` write the timers that call `wake.turn`, which decides with `cron` and `policy`
what is due. `runs` runs it, `changes` and `reports` report it. `web` sends requests, `alerts` writes alert rules.
"""
