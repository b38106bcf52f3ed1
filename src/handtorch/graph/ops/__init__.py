"""The op set by family; `graph/opset.py` is their sum."""
