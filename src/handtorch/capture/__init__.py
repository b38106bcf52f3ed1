"""PyTorch in, Graph out; with zoo/ and baseline/ the only home of torch."""
