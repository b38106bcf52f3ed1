"""`handtorch tune`: search the parameters of the matrix products on this device."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.cli.of_zoo import captured_model
from handtorch.errors import BadInput, StorageError

if TYPE_CHECKING:
    from handtorch.kernels.gemm_tiles import Product, Variant
    from handtorch.runtime.opencl.discover import FoundDevice
    from handtorch.tune.search import Progress
    from handtorch.tune.store import Results

HELP = "Search kernel parameters on this device; each result is checked before it counts"
EXAMPLE = "handtorch tune --time 60s"
COMMON = ("device", "quick")
_QUICK = "128x128x128,32x64x128 nt"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_BAR = 24


def add_args(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--shapes", metavar="LIST", help="products to tune: rows x columns x depth, "
                      "and which operands are transposed: 512x512x512,32x256x784 nt")
    what.add_argument("--model", metavar="NAME", help="tune the products of a training step of "
                      "this model of the zoo")
    parser.add_argument("--batch", metavar="N", type=int, default=32,
                        help="batch size for --model (32)")
    parser.add_argument("--full", action="store_true", help="everything the kernels can be built "
                        "with, not only what is likely: hours")
    parser.add_argument("--time", metavar="SPAN", help="stop after 60s, 5m or 2h; the next run "
                        "goes on from there")
    parser.add_argument("--fresh", action="store_true", help="forget what is known of this device "
                        "and driver, failures included")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--export", metavar="FILE", type=Path, help="write what is known of this "
                       "device and driver to FILE, tune nothing")
    files.add_argument("--import", metavar="FILE", type=Path, dest="import_", help="take over "
                       "somebody's results for the same device and driver; each is tried first")


def run(args: Namespace, out: TextIO) -> int:
    """Tune, export or import; exit 1 if an imported result failed here."""
    from handtorch.pipeline import tuned_file
    from handtorch.runtime.opencl.discover import choose
    from handtorch.tune.store import Results

    span_s = _seconds(args.time)
    device = choose(args.device)
    path = tuned_file(device.spec)
    results = Results(path, device.spec) if args.fresh else Results.open(path, device.spec)
    if args.export:
        return _export(args, out, results)
    if wrong := _failed_self_test(device):
        results.bar(*wrong)
        results.save()
    if args.import_:
        return _import(args, out, device, results)
    return _tune(args, out, device, results, span_s)


def _tune(args: Namespace, out: TextIO, device: FoundDevice, results: Results,
          span_s: float | None) -> int:
    import time

    from handtorch.tune.search import Search
    from handtorch.tune.trial import Worker

    products = _products(args, device)
    until_s = None if span_s is None else time.monotonic() + span_s
    show = _Bar(sys.stderr)
    try:
        with closing(Worker(device.label)) as worker:
            finished = Search(results, worker, products, args.full, until_s, show).run()
    except KeyboardInterrupt:
        show.end()
        sys.stderr.write(f"what was found so far is in {results.path}; the same command goes on "
                         "from there\n")
        raise
    show.end()
    record = _record(device, results, products)
    if args.json:
        out.write(json.dumps({**record, "finished": finished}) + "\n")
        return EXIT_OK
    out.write(_table(record))
    if not finished:
        out.write(f"stopped after {args.time}; the same command goes on from there\n")
    return EXIT_OK


def _products(args: Namespace, device: FoundDevice) -> tuple[Product, ...]:
    from handtorch.kernels.gemm_tiles import as_product
    from handtorch.tune.candidates import usual_products

    if args.model:
        return _of_model(args.model, args.batch, device)
    listed = args.shapes or (_QUICK if args.quick else "")
    if not listed:
        return usual_products()
    return tuple(dict.fromkeys(as_product(" ".join(text.split())) for text in listed.split(",")))


def _of_model(name: str, batch: int, device: FoundDevice) -> tuple[Product, ...]:
    """The products of one training step, as they are after all passes."""
    from handtorch.kernels.gemm_tiles import Product
    from handtorch.pipeline import compile_graph

    graph = captured_model(name, batch, asked=f"--model {name}",
                           example="handtorch tune --model ResNet50", without_torch="; or --shapes")
    found: dict[Product, None] = {}
    for node in compile_graph(graph, device.spec).graph.nodes:
        if node.op in ("matmul", "matmul_sgd"):
            a = node.inputs[0 if node.op == "matmul" else 1].shape
            ta, tb = node.flag("ta"), node.flag("tb")
            m, n = node.outputs[0].shape
            found[Product(m, n, a[0] if ta else a[1], ta, tb)] = None
    if not found:
        raise BadInput(f"--model {name}", why="its training step has no matrix products",
                       fix="--shapes")
    return tuple(found)


def _failed_self_test(device: FoundDevice) -> list[Variant]:
    """The variants that the self-test of this driver found wrong, if it has run."""
    from handtorch import selftest
    from handtorch.kernels.gemm import cases
    from handtorch.kernels.gemm_tiles import Form, as_variant

    wrong = {line.split(": ")[0] for line in selftest.verdict(device, run=False).detail}
    names: dict[str, tuple[Form, ...]] = {"gemm_register": ("register", "packed"),
                                          "gemm_dot": ("dot",)}
    found: list[Variant] = []
    for case in cases():
        step = case.steps[-1]
        for form in names.get(step.kernel, ()) if case.name in wrong else ():
            macros = {k: v for k, v in step.defines if k in ("KU", "NV", "R", "V", "WGX", "WGY")}
            found.append(as_variant(" ".join([form, *(f"{k}{v}" for k, v in macros.items())])))
    return found


def _export(args: Namespace, out: TextIO, results: Results) -> int:
    from handtorch.store.atomic import write_atomically

    if not results.best:
        raise BadInput("nothing to export", why="nothing was tuned on this device and driver yet",
                       fix="`handtorch tune`")
    try:
        write_atomically(args.export, results.to_bytes())
    except OSError as e:
        raise StorageError(f"{args.export} cannot be written", why=str(e.strerror)) from e
    told = f"{len(results.best)} products"
    out.write(json.dumps({"file": str(args.export), "products": len(results.best)}) + "\n"
              if args.json else f"{args.export}: {told}\n")
    return EXIT_OK


def _import(args: Namespace, out: TextIO, device: FoundDevice, results: Results) -> int:
    from handtorch.tune.search import take_over
    from handtorch.tune.store import offered
    from handtorch.tune.trial import Worker

    best, avoid = offered(args.import_, device.spec)
    show = _Bar(sys.stderr)
    with closing(Worker(device.label)) as worker:
        refused = take_over(results, worker, best, avoid, show)
    show.end()
    record = _record(device, results, tuple(best))
    if args.json:
        out.write(json.dumps({**record, "refused": [str(p) for p in refused]}) + "\n")
    else:
        out.write(_table(record))
        out.writelines(f"not taken over: {p}\n" for p in refused)
    return EXIT_NOT_DONE if refused else EXIT_OK


def _record(device: FoundDevice, results: Results, products: tuple[Product, ...]
            ) -> dict[str, Any]:
    """What is known of these products; times are None where nothing was timed."""
    from handtorch.kernels.gemm_tiles import table_variant

    def time_ns(product: Product, variant: Variant | None) -> int | None:
        trial = results.right(product).get(variant) if variant is not None else None
        return trial.time_ns if trial else None
    rows = []
    for product in products:
        best, table = results.best.get(product), table_variant(product, results.spec)
        rows.append({"product": str(product), "variant": best and str(best),
                     "time_ns": time_ns(product, best), "table_variant": str(table),
                     "table_time_ns": time_ns(product, table),
                     "tried": sum(p == product for p, _ in results.trials)})
    failed = [{"product": str(p), "variant": str(v), "state": t.state, "why": t.why}
              for p, v, t in results.failures()]
    return {"device": device.label, "name": device.spec.name, "driver": device.spec.driver,
            "file": str(results.path), "products": rows, "failed": failed}


def _table(record: dict[str, Any]) -> str:
    wide = max(len(r["product"]) for r in record["products"])
    lines = [f"{'product':<{wide}}  tried      table       best  gain  variant"]
    for row in record["products"]:
        best, table = row["time_ns"], row["table_time_ns"]
        gain = f"{table / best:.2f}" if best and table else "-"
        lines.append(f"{row['product']:<{wide}}  {row['tried']:>5}  {_time(table):>9}  "
                     f"{_time(best):>9}  {gain:>4}  {row['variant'] or 'not done'}")
    lines += [f"failed: {f['product']} {f['variant']}: {f['state']}: {f['why']}"
              for f in record["failed"]]
    return "\n".join([*lines, f"results in {record['file']}", ""])


def _time(nanoseconds: int | None) -> str:
    return "-" if nanoseconds is None else f"{nanoseconds / 1e3:.1f} us"


def _seconds(text: str | None) -> float | None:
    """`60s`, `5m`, `2h` or a number of seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found or not float(found[1]):
        raise BadInput(f"--time {text}", why="it is not a span of time", fix="60s, 5m or 2h")
    return float(found[1]) * _UNITS[found[2]]


class _Bar:
    """A bar that is drawn over itself on a terminal; elsewhere a line for each product."""

    def __init__(self, err: TextIO) -> None:
        self._err, self._drawn = err, err.isatty()

    def __call__(self, at: Progress) -> None:
        share = at.done / max(1, at.of)
        bar = "#" * round(share * _BAR)
        if self._drawn:
            what = f"{at.product} {at.variant or ''} {at.trial.state if at.trial else ''}"
            self._err.write(f"\r[{bar:<{_BAR}}] {at.done}/{at.of} {what:<60.60}")
        elif at.trial is None:
            self._err.write(f"{at.done}/{at.of} tried, {at.product}\n")
        self._err.flush()

    def end(self) -> None:
        if self._drawn:
            self._err.write("\n")
