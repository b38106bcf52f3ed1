"""Makes what ships in `src/handtorch/store/shipped`: a trained step and the data it learnt from.

Run it in the development environment, with torch and scikit-learn: `python dev/make_sample.py`. It
trains on `ref`, prints the accuracy on the rows kept for testing, and refuses to write a worse one
than WANTED."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_digits

from handtorch.api.make import train_step
from handtorch.store.sample import BRIGHTEST, SAMPLE, data_of, sample_folder
from handtorch.zoo.digits import BATCH, digits_training

EPOCHS, WANTED = 30, 0.97


def main() -> int:
    told = load_digits()
    images, labels = told.data.astype("u1"), told.target.astype("u1")
    assert images.max() == BRIGHTEST and (images == told.data).all()
    np.savez_compressed(sample_folder() / f"{SAMPLE}.npz", x=images, y=labels)
    data = data_of(SAMPLE)
    x, y = data.arrays["x"], data.arrays["y"]
    model, loss_fn, optimizer = digits_training()
    step = train_step(model, loss_fn, optimizer, example=(x[:BATCH], y[:BATCH]), device="ref")
    for epoch in range(EPOCHS):
        losses = [float(loss) for loss in step.epoch(x, y, seed=epoch)]
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}")
    (scores,) = step.inference().over(data.unseen["x"])
    right = int((scores.argmax(1) == data.unseen["y"]).sum())
    print(f"{right} of {len(scores)} unseen digits right, {right / len(scores):.2%}")
    if right < WANTED * len(scores):
        return 1
    step.save(sample_folder() / f"{SAMPLE}.ht")
    for name in (f"{SAMPLE}.ht", f"{SAMPLE}.npz"):
        print(f"{name}: {(sample_folder() / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
