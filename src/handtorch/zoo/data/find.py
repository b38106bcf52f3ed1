"""Which data set is taken: the user's path, one found in the shared folder, or generated data."""

from __future__ import annotations

from pathlib import Path

from handtorch import knobs
from handtorch.errors import BadInput
from handtorch.zoo.data.cifar import load_cifar10
from handtorch.zoo.data.dataset import GENERATED, DataSet
from handtorch.zoo.data.generated import (
    generate_pairs,
    generate_pictures,
    generate_questions,
    generate_text,
    generate_windows,
)
from handtorch.zoo.data.har_folder import load_har
from handtorch.zoo.data.idx import load_mnist
from handtorch.zoo.data.moves import GAME, atari_is_installed, generate_moves, load_atari
from handtorch.zoo.data.pairs import load_pairs
from handtorch.zoo.data.squad import load_squad
from handtorch.zoo.data.text import load_text

# Below HANDTORCH_SHARED/data; the first that is there is taken.
PLACES = {
    "cifar10": ("cifar10/cifar10_8k_2k.npz", "cifar10"),
    "mnist": ("mnist/mnist.npz", "mnist"),
    "text": ("text/tinyshakespeare.txt",),
    "squad": ("text/squad_v1.1_dev_slice_xquad_en.json", "squad"),
    "iwslt15": ("iwslt15", "text"),
    "har": ("har",),
}


def found(name: str) -> Path | None:
    """Where the data set lies in the shared folder; None without a folder, or if it is not there.
    """
    folder = knobs.value("HANDTORCH_SHARED")
    if not folder:
        return None
    places = (Path(folder).expanduser() / "data" / place for place in PLACES[name])
    return next((place for place in places if place.exists()), None)


def _chosen(name: str, path: str) -> Path | None:
    """None where data must be generated."""
    if path == GENERATED:
        return None
    if not path:
        return found(name)
    chosen = Path(path).expanduser()
    if not chosen.exists():
        raise BadInput(f"the data set {name}", why=f"{chosen} does not exist",
                       fix=f'check the path, or path="{GENERATED}" for generated data')
    return chosen


def open_cifar10(path: str, seed: int) -> DataSet:
    chosen = _chosen("cifar10", path)
    return load_cifar10(chosen) if chosen else generate_pictures("cifar10", 3, 32, seed)


def open_mnist(path: str, seed: int) -> DataSet:
    chosen = _chosen("mnist", path)
    return load_mnist(chosen) if chosen else generate_pictures("mnist", 1, 28, seed)


def open_text(path: str, seed: int, characters: int, window: int) -> DataSet:
    chosen = _chosen("text", path)
    return (load_text(chosen, characters, window) if chosen
            else generate_text(characters, window, seed))


def open_squad(path: str, seed: int, words: int, length: int) -> DataSet:
    chosen = _chosen("squad", path)
    return load_squad(chosen, words, length) if chosen else generate_questions(words, length, seed)


def open_pairs(path: str, seed: int, words: tuple[int, int], length: int) -> DataSet:
    chosen = _chosen("iwslt15", path)
    return load_pairs(chosen, words, length) if chosen else generate_pairs(words, length, seed)


def open_har(path: str, seed: int) -> DataSet:
    chosen = _chosen("har", path)
    return load_har(chosen) if chosen else generate_windows(seed)


def open_moves(path: str, seed: int, side: int) -> DataSet:
    """`path` is the name of a game; without one the usual game is played where it is installed."""
    if path == GENERATED or (not path and not atari_is_installed()):
        return generate_moves(side, seed)
    return load_atari(path or GAME, side, seed)
