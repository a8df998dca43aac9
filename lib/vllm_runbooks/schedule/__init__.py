"""Jobs that are run by a plan: decided here, woken by systemd or cron, told to Prometheus and a webhook.

`jobs` holds them, `units` and `jupyter` write what wakes us, `wake.turn` does what is due; `cron` and `policy` decide
it, `runs` runs it with its `variables`, `changes` and `reports` tell it. `web` asks servers, `alerts` writes rules and
a dashboard for what is told.
"""
