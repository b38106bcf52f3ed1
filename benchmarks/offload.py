"""The load-aware policy against fixed rules and an oracle, over scripted days; two places together.

    python benchmarks/offload.py days [FILE ...]  simulated, from tables that were measured before
    python benchmarks/offload.py real             56 s of a real day, with real load
    python benchmarks/offload.py measure FILE     such tables, on this machine; about 90 s
    python benchmarks/offload.py split            one batch over two places; gain over one
    python benchmarks/offload.py deciding         what a decision costs

`--device NAME` is the OpenCL place of `real`, `measure` and `split`."""

from __future__ import annotations

import argparse
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import handtorch as ht
from handtorch.baseline.fair import Plan, Timing, Work, interleave, middle_half
from handtorch.offload.days import JUDGING, TUNING, Day
from handtorch.offload.har import device_har, windows
from handtorch.offload.judge import CPU, DEVICE, THRESHOLD, Verdict, judge
from handtorch.offload.offload import Offload
from handtorch.offload.pair import Pair, har_pair
from handtorch.offload.place import NOT_READ, Decision, Load, Place
from handtorch.offload.policy import Policy
from handtorch.offload.table import Table, Tables, read_tables, take_table
from handtorch.runtime.opencl.discover import choose

MEASURED = Path(__file__).with_name("offload_tables")
RULES = ("always cpu", "always device", "70 % rule", "ours", "oracle")
COLUMNS = (*RULES[:4], "ours, blind", "oracle")
# Seconds, load of the CPU place, load of the device place: both, one or none of them busy.
REAL_DAY = ((5, 0.0, 0.0), (6, 0.0, 0.8), (4, 0.0, 0.2), (6, 0.7, 0.2), (6, 0.7, 0.8),
            (5, 0.3, 0.5), (6, 0.1, 0.7), (3, 0.1, 0.0), (3, 0.1, 0.8), (3, 0.1, 0.0),
            (3, 0.1, 0.8), (6, 0.4, 0.4))


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(path: Path, device: str) -> None:
    """The tables of torch on one core and of the device on another."""
    with har_pair(device, limit_s=240) as pair:
        tables = [take_table(place, load, call, progress=progress)
                  for place, load, call in pair.loaded()]
    about = {"machine": platform.machine(), "device": device, "work": pair.work,
             "command": f"benchmarks/offload.py measure --device {device}",
             "same_silicon": pair.silicon}
    path.write_text(Tables(about, tuple(tables)).to_json())
    for table in tables:
        for level in table.levels:
            print(f"{table.place:8} asked {level.asked:.0%}  " + (level.refused or
                  f"held {level.held:.1%}  {1e3 * level.median_s:6.2f} ms "
                  f"(spread {1e3 * middle_half(level.latencies_s):.2f})"))


def days(paths: list[Path]) -> None:
    for path in paths or sorted(MEASURED.glob("*.json")):
        tables = read_tables(path)
        cpu, device = tables.places
        print(f"{path.stem}: {tables.about['work']}\n  {tables.about['same_silicon']}")
        print("  seconds of all calls, SIMULATED from measured latencies by load\n"
              f"  {'day':22}" + "".join(f"{c:>14}" for c in COLUMNS)
              + "   /oracle  /informed  /better fixed  switches  probes")
        for kind, those in (("tuning", TUNING), ("judging", JUDGING)):
            for day in those:
                print(f"  {line(judged(day, cpu, device))}  {kind}")


def judged(day: Day, cpu: Table, device: Table) -> Verdict:
    names = ["cpu", "device"]
    return judge(day, (cpu, device), {"ours": Policy(names), "ours, blind": Blind(names)})


class Blind(Policy):
    """Ours where no load can be read: what is left is latencies, hysteresis and probes."""

    def choose(self, loads: Sequence[Load], now_s: float) -> Decision:
        return super().choose([NOT_READ] * len(loads), now_s)


def line(v: Verdict) -> str:
    """`informed` is an oracle that knows loads and means, yet not the luck of each call."""
    ours = v.outcomes["ours"]
    return (f"{v.day:22}" + "".join(f"{v.outcomes[c].total_s:14.1f}" for c in COLUMNS)
            + f"{v.over_oracle():10.3f}{v.over_mean_oracle():11.3f}{v.over_fixed():15.3f}"
            + f"{ours.switches:10}{ours.probes:8}")


def real(device: str) -> None:
    """At every step each place is called once and ours once, in random order: so all rules meet
    the same moments, and the oracle's latency of a step is the lesser of the two places'."""
    totals, calls = dict.fromkeys(RULES, 0.0), 0
    draw = random.Random(5)
    with har_pair(device, limit_s=150) as pair:
        offload = ht.offload(pair.places)
        x = windows(64)
        for seconds, cpu_share, device_share in REAL_DAY:
            pair.cpu_load.hold(cpu_share)
            pair.device_load.hold(device_share)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.010)
                for name, taken in step(pair, offload, x, draw).items():
                    totals[name] += taken
                calls += 1
        print(f"{pair.work}\n{pair.silicon}\nMEASURED here, {calls} calls, seconds of all calls:")
    for name, total in totals.items():
        print(f"  {name:14} {total:7.2f}  {total / totals['oracle']:.3f} of the oracle")
    kinds = [d.decision.kind for d in offload.done]
    print("  decisions: " + ", ".join(f"{kinds.count(k)} {k}" for k in sorted(set(kinds))))
    print(offload.explain(3))


def step(pair: Pair, offload: Offload, x: object, draw: random.Random) -> dict[str, float]:
    share = pair.device.load().share or 0.0
    sides: dict[str, Callable[..., object]] = {"cpu": pair.cpu.call, "device": pair.device.call,
                                               "ours": offload}
    taken = {}
    for name in draw.sample(list(sides), 3):
        start = time.perf_counter()
        sides[name](x)
        taken[name] = time.perf_counter() - start
    by = (taken["cpu"], taken["device"])
    return {"always cpu": by[CPU], "always device": by[DEVICE],
            "70 % rule": by[CPU if share > THRESHOLD else DEVICE], "ours": taken["ours"],
            "oracle": min(by)}


def again(call: Callable[[object], object], x: object) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            call(x)
    return work


def told(times: dict[str, Timing], both: str, single: list[str]) -> None:
    for name, t in times.items():
        print(f"  {name:24} {1e3 * t.median_s:7.2f} ms (spread {1e3 * middle_half(t.seconds):.2f})")
    better = min(single, key=lambda name: times[name].median_s)
    gains = [a / b for a, b in zip(times[better].seconds, times[both].seconds, strict=True)]
    print(f"  gain over {better}: {median(gains):.2f} (spread {middle_half(gains):.2f})")


def split(device: str) -> None:
    plan = Plan(rounds=7, block_s=0.25)
    x = windows(256)
    found = choose(device)
    if found.facts.sub_devices and found.spec.compute_units > 1:
        names = [f"{found.label}/{k}-of-2" for k in range(2)]
        calls = [device_har(8, name) for name in names]
        whole = device_har(8, found.label)
        with ht.split([Place(n, c) for n, c in zip(names, calls, strict=True)], unit=8) as both:
            sides = {"split": again(both, x), found.label: again(whole, x),
                     **{n: again(c, x) for n, c in zip(names, calls, strict=True)}}
            print(f"256 windows, two halves of {found.label} (same silicon: the two halves are the "
                  "whole, so one half is what the split must beat)")
            told(interleave(sides, plan), "split", names)
            print(f"  parts: {', '.join(f'{r:.0%}' for r in both.ratio)}")
    with (har_pair(device, limit_s=120, highest=0.5) as pair,
          ht.split(pair.places, unit=8) as both):
        sides = {"split": again(both, x), "cpu": again(pair.cpu.call, x),
                 "device": again(pair.device.call, x)}
        for share in (0.0, 0.5):
            pair.device_load.hold(share)
            print(f"256 windows, torch on the CPU and {found.label} together, the device under a "
                  f"load of {share:.0%}; {pair.silicon}")
            told(interleave(sides, plan), "split", ["cpu", "device"])
            print(f"  parts: {', '.join(f'{r:.0%}' for r in both.ratio)}")


def deciding() -> None:
    """Choosing, learning and keeping the record, of calls that do nothing."""
    draw, times = random.Random(0), []
    for _ in range(20):
        offload = ht.offload([Place(name, lambda x: x, lambda: Load(draw.random()))
                              for name in ("cpu", "device")])
        for k in range(1000):
            offload(k)
        times += [1e6 * d.deciding_s for d in offload.done]
    times.sort()
    print(f"a decision: median {median(times):.1f} us, 99 of 100 below "
          f"{times[len(times) * 99 // 100]:.1f} us (wanted: below 50), {len(times)} calls")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("days", "real", "measure", "split", "deciding"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--device", default=None)
    args = parser.parse_args()
    device = choose(args.device).label if args.what not in ("days", "deciding") else ""
    if args.what == "days":
        days(args.files)
    elif args.what == "measure":
        measure(args.files[0], device)
    elif args.what == "real":
        real(device)
    else:
        split(device) if args.what == "split" else deciding()


if __name__ == "__main__":
    main()
