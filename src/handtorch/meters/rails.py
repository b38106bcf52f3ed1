"""The power rails of Jetson boards as data: what each feeds, and which is a part of which.

Documented: NVIDIA's Jetson Developer Guide (32.6.1 and 36), "Clock Frequency and Power Management";
energymon's jetson/JetsonPowerRails.md; the shunts from the device trees of L4T and mainline. The
names of Nano, TX2, AGX Xavier, AGX Orin and Orin Nano are also in lines that tegrastats printed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

NOT_CONNECTED = "NC"


@dataclass(frozen=True, slots=True)
class Rail:
    """`parent` is the rail that feeds it; without one it comes from the power supply itself.

    CV (vision and inference engines) is not named in a part: nothing of ours runs there."""

    part: str
    parent: str = ""
    shunt_ohm: float | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """The rails of a module; those without a parent add up to all it draws."""

    name: str
    rails: Mapping[str, Rail]

    def rail(self, name: str) -> Rail | None:
        return self.rails.get(name) or CARRIER.get(name)


# The board under a TX1 or TX2. It branches off the supply beside VDD_IN: neither holds the other.
CARRIER = {
    "VDD_MUX": Rail("carrier"),
    **{
        name: Rail("carrier", "VDD_MUX")
        for name in (
            "VDD_5V_IO_SYS", "VDD_5V0_IO_SYS", "VDD_3V3_SYS", "VDD_3V3_IO", "VDD_3V3_IO_SLP",
            "VDD_1V8_IO", "VDD_M2_IN", "VDD_3V3_SYS_M2",
        )
    },
}  # fmt: skip

_MODULE = Rail("machine")           # with everything on the module, without the carrier board


def _inside(whole: str, **parts: str) -> dict[str, Rail]:
    return {whole: _MODULE, **{name: Rail(part, whole) for name, part in parts.items()}}


def _shunts(rails: dict[str, Rail], ohm: float, **others: float) -> dict[str, Rail]:
    return {
        name: Rail(rail.part, rail.parent, others.get(name, ohm)) for name, rail in rails.items()
    }


BOARDS = (
    Board("TX1", _inside("VDD_IN", VDD_GPU="gpu", VDD_CPU="cpu")),
    Board("TX2", _shunts(_inside(
        "VDD_IN", VDD_SYS_GPU="gpu", VDD_SYS_SOC="soc", VDD_4V0_WIFI="wifi", VDD_SYS_CPU="cpu",
        VDD_SYS_DDR="memory",
    ), 0.010, VDD_IN=0.005)),
    Board("TX2, mainline kernel", _shunts(_inside(
        "VDD_IN", VDD_SYS_GPU="gpu", VDD_SYS_SOC="soc", VDD_3V8_WIFI="wifi", VDD_SYS_CPU="cpu",
        VDD_5V0_DDR="memory",
    ), 0.010, VDD_IN=0.005)),
    Board("TX2, short names", _shunts(_inside(
        "VDD_IN", VDD_GPU="gpu", VDD_SOC="soc", VDD_WIFI="wifi", VDD_CPU="cpu", VDD_DDR="memory",
    ), 0.010, VDD_IN=0.005)),
    Board("TX2 NX", _inside("VDD_IN", VDD_CPU_GPU="cpu+gpu", VDD_SOC="soc")),
    Board("Nano", _inside("POM_5V_IN", POM_5V_GPU="gpu", POM_5V_CPU="cpu")),
    Board("AGX Xavier", _shunts({
        "GPU": Rail("gpu"), "CPU": Rail("cpu"), "SOC": Rail("soc"), "CV": Rail("cv"),
        "VDDRQ": Rail("memory"), "SYS5V": Rail("io"),
    }, 0.005)),
    Board("Xavier NX, Orin NX or Orin Nano",
          _inside("VDD_IN", VDD_CPU_GPU_CV="cpu+gpu", VDD_SOC="soc")),
    Board("AGX Orin", _shunts({
        "VDD_GPU_SOC": Rail("gpu+soc"), "VDD_CPU_CV": Rail("cpu"), "VIN_SYS_5V0": Rail("io"),
        "VDDQ_VDD2_1V8AO": Rail("memory", "VIN_SYS_5V0"),
    }, 0.002)),
)  # fmt: skip


def board_of(names: Collection[str]) -> Board | None:
    """The board that has all these rails, and the fewest others; None where there is none."""
    own = [name for name in names if name not in CARRIER and name != NOT_CONNECTED]
    having = [board for board in BOARDS if own and all(name in board.rails for name in own)]
    return min(having, key=lambda board: len(board.rails), default=None)
