"""Files that last: safetensors in and out, graphs as JSON, .ht."""
