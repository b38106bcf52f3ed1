"""Study `rnn`: an LSTM network in all the ways of the MobiRNN paper, and in ours.

After "MobiRNN: Efficient Recurrent Neural Network Execution on Mobile GPU" (2017): activity
recognition, 128 readings of 9 signals, 2 layers of 32 units unless said otherwise, one window at a
time. The parts run one after the other, each with verdicts of its own:

    timing       Fig. 3 to 6: fine and coarse units against the CPU, by hidden units and layers
    loaded       Fig. 7: both processors under low, medium and high load (rnn_load.py)
    recognition  the authors' own network gives the same answers in every strategy
    learning     the same network from scratch, on the device; not in the quick form"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from handtorch.baseline.fair import Plan, interleave, moment, share_of_others
from handtorch.errors import BadInput, KernelError
from handtorch.kernels.case import Array
from handtorch.kernels.lstm_weights import LstmWeights, random_weights
from handtorch.record import Result, Verdict
from handtorch.runtime.opencl.discover import find_devices
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.studies.rnn_findings import (
    JUDGED,
    NAME,
    OURS_QUESTION,
    QUESTION,
    Point,
    judge,
    judge_ours,
    published,
    results,
    table,
)
from handtorch.studies.rnn_learning import Learned, learn
from handtorch.studies.rnn_load import judge_load, load_figure, load_table
from handtorch.studies.rnn_strategies import (
    A1,
    B1,
    B2,
    ON_HOST,
    TITLES,
    C,
    D,
    E,
    Sides,
    Strategy,
    over,
    ready,
)
from handtorch.studies.study import HOST, Setting
from handtorch.zoo.har_data import (
    Windows,
    generated_windows,
    load_recordings,
    read_weights,
    read_windows,
    shared_file,
)

__all__ = ["OURS_QUESTION", "QUESTION", "run"]

HIDDEN, LAYERS = (32, 64, 128, 256), (1, 2, 3)
QUICK_NETS = ((1, 32), (2, 32), (3, 32), (2, 128), (2, 256))
SWEPT = (A1, B1, B2, D, E)                  # everywhere; the others at the paper's network only
CASES = 100                                 # windows drawn at random, as in the paper
FULL, QUICK = Plan(rounds=7), Plan(rounds=3, block_s=0.030)
AGREE_WITHIN = 1e-5                         # of the largest score
LEARN_LIMIT_S = 240.0
BATCH = 50                                  # windows at a time where speed is not the question
SAME = "Does the authors' network recognise the same in every strategy?"
LOADED = "Does the device win under low and medium load, and the CPU under high, as in the paper?"
LEARNS = "Does the network learn on the device to recognise people it has not seen?"
_THEIR_WINDOWS, _THEIR_WEIGHTS = "mobirnn/har_test_500.npz", "mobirnn/lstm_2x32_emdl17.npz"


def run(at: Setting) -> str:
    """Every part in turn; what was measured before an interruption is kept."""
    at.record.add(*published())
    return "\n".join(filter(None, (part(at) for part in PARTS)))


def their_windows() -> Windows:
    """The authors' windows if they are at hand, else generated ones, which say so."""
    file = shared_file(_THEIR_WINDOWS)
    return generated_windows(500) if file is None else read_windows(file, "the authors' windows")


def drawn(windows: Windows, count: int) -> Windows:
    """`count` of them, drawn without replacement, the same each time."""
    rows = np.random.default_rng(0).permutation(len(windows.x))[:count]
    return Windows(windows.name, np.ascontiguousarray(windows.x[rows]), windows.y[rows])


# --- timing

def timing(at: Setting) -> str:
    on = OpenCLExecutor(at.device)
    cpu = _cpu(on)
    windows = drawn(their_windows(), CASES)
    points: list[Point] = []
    begin = moment()
    for layers, hidden in nets(at.quick):
        at.progress(f"{NAME}: {layers} x {hidden}")
        sides = Sides(random_weights(hidden, layers), on, cpu or on, windows.x[:1])
        keys = [k for k in (TITLES if (layers, hidden) == JUDGED else SWEPT) if cpu or k != B1]
        with ready(sides, keys) as strategies:
            check_agreement(f"{layers} x {hidden}", strategies, windows.x[:1])
            points.append(_point(layers, hidden, strategies, windows.x, at.quick))
        at.record.add(*results(points[-1], at.place))
        at.record.flush()
    others = share_of_others(begin)
    verdicts = judge(points, at.device, others), judge_ours(points, at.device, others)
    at.record.add(*verdicts)
    told = "\n".join(map(_told, verdicts))
    return f"{NAME}, on {windows.name}\n{table(points, others)}\n{told}"


def nets(quick: bool) -> Sequence[tuple[int, int]]:
    """(layers, hidden units)"""
    return QUICK_NETS if quick else [(layers, hidden) for layers in LAYERS for hidden in HIDDEN]


def _cpu(on: OpenCLExecutor) -> OpenCLExecutor | None:
    """An OpenCL device that is the CPU: `on` itself if it is one."""
    if on.spec.kind == "cpu":
        return on
    found = [d for d in find_devices() if d.spec.kind == "cpu" and d.facts.by_default]
    return OpenCLExecutor(found[0]) if found else None


def _point(layers: int, hidden: int, strategies: dict[str, Strategy], windows: Array,
           quick: bool) -> Point:
    times = interleave({k: s.work(windows) for k, s in strategies.items()},
                       QUICK if quick else FULL)
    launches = {k: s.launches_per_cell for k, s in strategies.items()
                if s.launches_per_cell is not None}
    return Point(layers, hidden, times, launches, {k: s.note for k, s in strategies.items()})


def check_agreement(title: str, strategies: dict[str, Strategy], windows: Array) -> None:
    """Refuse to time a strategy whose scores are not those of the first one."""
    scores = {key: s.runs.scores(windows) for key, s in strategies.items()}
    first = next(iter(scores.values()))
    for key, found in scores.items():
        worst = _off(found, first)
        if not worst <= AGREE_WITHIN:
            raise KernelError(
                f"{NAME}: {title}, {TITLES[key]}",
                why=f"a score differs from that of {TITLES[next(iter(scores))]} by {worst:.2g} of "
                    f"the largest, allowed is {AGREE_WITHIN:g}",
                fix="`handtorch devices` runs the device's self-test")


def _off(found: Array, first: Array) -> float:
    return float(np.abs(found - first).max() / np.abs(first).max())


# --- load

def loaded(at: Setting) -> str:
    """Both places while others use their processor; a machine with one core has no two places."""
    try:
        rows = load_figure(at.quick, at.progress, at.place)
    except BadInput as e:
        verdict = Verdict(study=NAME, question=LOADED, holds=None, holds_reason=str(e),
                          answer="The load figure was not made.")
        at.record.add(verdict)
        return _told(verdict)
    verdict = judge_load(rows, LOADED)
    at.record.add(*rows, verdict)
    return f"{load_table(rows)}\n{_told(verdict)}"


# --- recognition

def recognition(at: Setting) -> str:
    """The strategies on the same windows: how many are recognised, and whether all agree. Of fine
    units only those in groups: what they compute is the same."""
    weights = _their_weights()
    if weights is None:
        verdict = Verdict(study=NAME, question=SAME, holds=None, holds_reason=(
            f"HANDTORCH_SHARED names no folder with {_THEIR_WEIGHTS}"),
            answer="Their network is not at hand; with random weights the strategies agreed "
                   f"within {AGREE_WITHIN:g} before they were timed.")
        at.record.add(verdict)
        return _told(verdict)
    windows = drawn(their_windows(), CASES if at.quick else 500)
    on = OpenCLExecutor(at.device)
    at.progress(f"{NAME}: {len(windows.y)} windows in every strategy")
    keys = [k for k in TITLES if k != C]    # column by column, many windows take a CPU minutes
    with ready(Sides(weights, on, on, windows.x[:BATCH]), keys) as strategies:
        scores = {key: over(s, windows.x, BATCH) for key, s in strategies.items()}
    verdict = judge_scores(scores, windows)
    at.record.add(*_shares(scores, windows, at.place), verdict)
    return _told(verdict)


def _their_weights() -> LstmWeights | None:
    file = shared_file(_THEIR_WEIGHTS)
    return None if file is None else read_weights(file)


def judge_scores(scores: dict[str, Array], windows: Windows) -> Verdict:
    """Holds if all recognise the same windows as the same."""
    first = scores[A1]
    other = {key: int((s.argmax(1) != first.argmax(1)).sum()) for key, s in scores.items()}
    worst = max(_off(s, first) for s in scores.values())
    right = float((first.argmax(1) == windows.y).mean())
    differ = ", ".join(f"{TITLES[k]} in {n}" for k, n in other.items() if n)
    said = (f"All {len(scores)} strategies give the same class" if not differ else
            f"Classes differ from those of {TITLES[A1]}: {differ}")
    return Verdict(study=NAME, question=SAME, holds=not differ,
                   answer=f"{said} for {len(windows.y)} of {windows.name}, {right:.1%} of them the "
                          f"right one; scores differ by {worst:.1g} of the largest at most.")


def _shares(scores: dict[str, Array], windows: Windows, place: str) -> list[Result]:
    return [Result(study=NAME, name=f"recognised of {windows.name}", subject=TITLES[key],
                   place=HOST if key in ON_HOST else place, unit="%", better="higher", repeats=1,
                   value=100 * float((s.argmax(1) == windows.y).mean()), provenance="measured")
            for key, s in scores.items()]


# --- learning

def learning(at: Setting) -> str:
    if at.quick:
        return ""
    recordings = load_recordings()
    at.progress(f"{NAME}: learning from {recordings.name}")
    learned = learn(recordings, at.place, limit_s=LEARN_LIMIT_S,
                    progress=lambda text: at.progress(f"{NAME}: {text}"))
    verdict = judge_learned(learned)
    at.record.add(*_by_epoch(learned, at.place), verdict)
    return _told(verdict)


def judge_learned(learned: Learned) -> Verdict:
    whole = len(learned.shares) == learned.epochs
    return Verdict(study=NAME, question=LEARNS, answer=learned.text,
                   holds=learned.reached if whole or learned.reached else None,
                   holds_reason="" if whole or learned.reached else
                   f"{LEARN_LIMIT_S:.0f} s were over after {len(learned.shares)} of "
                   f"{learned.epochs} epochs")


def _by_epoch(learned: Learned, place: str) -> list[Result]:
    return [Result(study=NAME, name=f"unseen windows recognised, trained on {learned.name}",
                   subject="train_step", place=place, x_name="epoch", x_value=i, value=100 * share,
                   unit="%", better="higher", repeats=1, provenance="measured")
            for i, share in enumerate(learned.shares, 1)]


def _told(verdict: Verdict) -> str:
    doubt = f"Not judged: {verdict.holds_reason}.\n" if verdict.holds is None else ""
    return f"{verdict.question}\n{verdict.answer}\n{doubt}"


PARTS: tuple[Callable[[Setting], str], ...] = (timing, loaded, recognition, learning)
