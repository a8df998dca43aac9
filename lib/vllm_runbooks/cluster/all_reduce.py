"""Program for a Python with torch: one rank of an all-reduce, which reports its state as lines of JSON.

    python all_reduce.py '{"rank": 0, "world": 2, "address": "10.0.0.1", "port": 29501, "backend": "gloo", "mib": 16,
                           "limit_s": 8}'

States are "imported", "joined" and "done"; "unable" if it could not begin and "failed" if it broke off, with `message`.
It needs nothing of this project. Its caller ends it: a rank may hang for good.
"""

# ruff: noqa: T201, BLE001 - a stand-alone program, which prints its output and any error
import datetime as dt
import json
import sys
import time
from typing import Any


def _say(state: str, **told: object) -> None:
    print(json.dumps({"state": state, **told}), flush=True)


def _device(backend: str) -> Any:
    """The device for the numbers, tried before another rank is waited for."""
    import torch  # type: ignore[import-not-found]
    import torch.distributed  # type: ignore[import-not-found]

    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    torch.ones(1, device=device).item()
    return device


def _run(spec: dict[str, Any], device: Any) -> None:
    import torch
    import torch.distributed as dist

    begun = time.monotonic()
    address = f"[{spec['address']}]" if ":" in spec["address"] else spec["address"]
    dist.init_process_group(
        spec["backend"],
        init_method=f"tcp://{address}:{spec['port']}",
        rank=spec["rank"],
        world_size=spec["world"],
        timeout=dt.timedelta(seconds=spec["limit_s"]),
        # With it NCCL connects here, not at the first collective; a CPU rejects it.
        device_id=device if spec["backend"] == "nccl" else None,
    )
    _say("joined", seconds=time.monotonic() - begun)
    numbers = torch.full((spec["mib"] * (1 << 18),), float(spec["rank"] + 1), device=device)
    dist.all_reduce(numbers)
    expected = spec["world"] * (spec["world"] + 1) / 2
    right = bool((numbers == expected).all())  # which also waits for the GPU
    # All ranks are through: none leaves while another still reads from it.
    dist.barrier()
    _say("done" if right else "failed", seconds=time.monotonic() - begun, message="" if right else "wrong sum")
    dist.destroy_process_group()


def main(text: str) -> None:
    """The program."""
    state = "unable"
    try:
        spec = json.loads(text)
        device = _device(spec["backend"])
        _say("imported")
        state = "failed"
        _run(spec, device)
    except Exception as error:
        _say(state, message=f"{type(error).__name__}: {error}"[:4000])
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
