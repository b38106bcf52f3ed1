"""What the paper printed of the experiments of the study `recognize`."""

from __future__ import annotations

from collections.abc import Iterator

from handtorch.cloud.scenes import PUBLISHED_KB, SIZES
from handtorch.record import Published
from handtorch.studies.recognize_modes import CLOUD_CL, CLOUD_CPU, DEVICE_CL, DEVICE_CPU

NAME = "recognize"
_PAPER = "Guo, Cloud-based or On-device, IC2E 2018"
# Table III by our modes: its cloud GPU and CNNDroid (RenderScript) are our OpenCL.
PAPERS = {CLOUD_CPU: "Cloud+CPU", CLOUD_CL: "Cloud+GPU", DEVICE_CPU: "Device+Caffe",
          DEVICE_CL: "Device+CNNDroid"}
COLUMNS = (("load", "ms"), ("rescale", "ms"), ("upload", "ms"), ("compute", "ms"), ("CPU", "%"),
           ("device", "%"), ("power", "mW"), ("memory", "MB"))
TABLE_III = {
    CLOUD_CPU: (0.0, 76.16, 36.83, 238.60, 6.22, 0.89, 1561.63, 1279.10),
    CLOUD_CL: (0.0, 76.16, 36.83, 18.60, 6.36, 0.43, 1560.17, 1311.38),
    DEVICE_CPU: (2422.13, 79.98, 0.0, 8910.64, 35.01, 0.14, 3249.01, 1637.16),
    DEVICE_CL: (61256.17, 70.43, 0.0, 2131.70, 22.20, 27.14, 2962.58, 1752.45),
}
# How much slower the phone computed than the server: the same program of the same networks.
SLOWER = {DEVICE_CPU: 8910.64 / 238.60, DEVICE_CL: 2131.70 / 18.60}
SLOWER_HOW = {DEVICE_CPU: "8910.64 / 238.60, Device+Caffe by Cloud+CPU",
              DEVICE_CL: "2131.70 / 18.60, Device+CNNDroid by Cloud+GPU"}
# Phase, network: duration, collections, their time, pause (Table IV, CNNDroid).
TABLE_IV = {("load", "alexnet"): (84537.33, 4.33, 513.55, 10.42),
            ("load", "nin"): (37975.0, 16.67, 3757.30, 175.76),
            ("use", "alexnet"): (11800.0, 4.0, 536.55, 4.60),
            ("use", "nin"): (17166.67, 7.0, 4307.18, 274.66)}
_OTHERS = (
    ("energy of an inference", PAPERS[CLOUD_CL], 0.057, "mWh", "section IV-B"),
    ("energy of an inference", PAPERS[DEVICE_CPU], 8.11, "mWh", "section IV-B"),
    ("load", "Device+Caffe, SqueezeNet", 103.7, "ms", "section IV-C"),
    ("load", "Device+Caffe, at most", 4120.0, "ms", "section IV-C"),
    ("compute", "Device+CNNDroid, AlexNet", 1541.67, "ms", "section IV-C, Fig. 4(b)"),
    ("compute", "Device+Caffe, NIN", 13745.33, "ms", "section IV-C, Fig. 4(b)"),
    ("rescale", "pictures below 226 KB, at most", 38.0, "ms", "section IV-C, Fig. 5"),
    ("power", "idle, screen on", 1081.24, "mW", "section IV-B"),
)


def published() -> Iterator[Published]:
    """Every number of Tables II to IV, and those of the text that ours stand beside."""
    for mode, values in TABLE_III.items():
        for (name, unit), value in zip(COLUMNS, values, strict=True):
            yield Published(study=NAME, name=name, subject=PAPERS[mode], value=value, unit=unit,
                            source=f"{_PAPER}, Table III")
    for (phase, model), four in TABLE_IV.items():
        for (name, unit), value in zip(
                (("duration", "ms"), ("collections", ""), ("collecting", "ms"), ("pause", "ms")),
                four, strict=True):
            yield Published(study=NAME, name=f"{name} of {phase}", subject=f"CNNDroid, {model}",
                            value=value, unit=unit, source=f"{_PAPER}, Table IV")
    for (height, width), sizes in zip(SIZES, PUBLISHED_KB, strict=True):
        for number, kb in enumerate(sizes, 1):
            yield Published(study=NAME, name="picture file", subject=f"scene {number}",
                            x_name="pixels", x_value=float(height * width), value=float(kb),
                            unit="KB", source=f"{_PAPER}, Table II")
    for name, subject, value, unit, where in _OTHERS:
        yield Published(study=NAME, name=name, subject=subject, value=value, unit=unit,
                        source=f"{_PAPER}, {where}")
