from __future__ import annotations

from handtorch.doctor.compare import compare, figure_text, shown, told
from tests.doctor.a_record import device, figure, record


def test_equal_files_say_the_same() -> None:
    assert compare(record(), record()) == []
    assert told([]) == "They say the same.\n"


def test_everything_that_differs_in_words() -> None:
    other = device(driver="4.0", limits={"compute_units": 8, "global_bytes": 1 << 30, "fp16": True},
                   extensions=["cl_khr_fp16"],
                   self_test={"state": "failed", "cases": 12, "detail": ["gemm: wrong"]},
                   tuning={"source": "shipped", "shapes": 3, "avoided_count": 0},
                   benchmark={"SGEMM 512": figure(240e9, 4e9),
                              "launch": figure(1000.0, 100.0, "lower", "ns")})
    b = record(other, machine={"cpu_model": "Cortex-A78", "cores": 2},
               packages={"torch": "2.13"}, sensors=[])
    assert told(compare(record(), b)) == """\
machine
  cpu model: AMD EPYC in A, Cortex-A78 in B

packages
  torch: unknown in A, 2.13 in B

device pocl
  driver: 3.1 in A, 4.0 in B
  compute units: 2 in A, 8 in B
  fp16: no in A, yes in B
  extensions: only in A: cl_khr_fp64
  extensions: only in B: cl_khr_fp16
  self-test state: passed in A, failed in B
  self-test detail: [] in A, ['gemm: wrong'] in B
  tuning source: none in A, shipped in B
  tuning shapes: 0 in A, 3 in B
  SGEMM 512: 120 GFLOP/s in A, 240 GFLOP/s in B: B does 2 times as much
  launch: 2,000 ns in A, 1,000 ns in B: B takes 0.5 times as long

sensors
  can be read: only in A: procfs cpu0_busy_s
"""


def test_what_lies_within_the_spreads_is_no_difference() -> None:
    near = device(benchmark={"SGEMM 512": figure(124e9, 4e9), "launch": figure(
        2000.0, 100.0, "lower", "ns")})
    assert compare(record(), record(near)) == []
    far = device(benchmark={"SGEMM 512": figure(124.1e9, 4e9), "launch": figure(
        2000.0, 100.0, "lower", "ns")})
    (found,) = compare(record(), record(far))
    assert found.what == "SGEMM 512" and found.ratio is not None and 1.03 < found.ratio < 1.04


def test_not_measured_is_no_ratio() -> None:
    (found,) = compare(record(device(benchmark={"copy": figure(None)})),
                       record(device(benchmark={"copy": figure(5e9, unit="B/s")})))
    assert found.said == "not measured in A, 5 GB/s in B" and found.ratio is None
    zero = device(benchmark={"copy": figure(0.0)})
    assert compare(record(zero), record(device(benchmark={"copy": figure(2.0)})))[0].ratio is None


def test_two_phones_have_different_devices() -> None:
    a, b = record(device(label="adreno")), record(device(label="mali", name="Mali-G610"),
                                                  device(default=False))
    found = compare(a, b)
    assert [(d.of, d.what, d.said) for d in found] == [
        ("default device, adreno and mali", "name", "pthread in A, Mali-G610 in B"),
        ("device pocl", "", "only in B: pthread, driver 3.1")]


def test_texts_of_strangers_do_not_reach_the_terminal_as_they_are() -> None:
    evil = record(device(driver="\x1b[2J\x07evil" + "x" * 500), packages={"\x1b]0;t": "1"})
    said = told(compare(record(), evil))
    assert "\x1b" not in said and "\x07" not in said and max(map(len, said.splitlines())) < 200
    assert shown("a\nb") == "a\N{REPLACEMENT CHARACTER}b"


def test_figures() -> None:
    assert figure_text(figure(1.26e11)) == "126 GFLOP/s"
    assert figure_text(figure(2.5e6, unit="B/s")) == "2.5 MB/s"
    assert figure_text(figure(12.0)) == "12 FLOP/s"
    assert figure_text(None) == "not measured"


def test_what_was_measured_beside_other_programs_is_doubtful() -> None:
    fast = device(benchmark={"copy": figure(9e9)}, others_share=0.31)
    slow = device(benchmark={"copy": figure(3e9)}, others_share=0.01)
    assert [(d.what, d.said) for d in compare(record(fast), record(slow))][1:] == [
        ("doubtful", "other programs used 31% of the cores while A was measured")]
    assert compare(record(fast), record({**fast, "others_share": "evil"})) == []
