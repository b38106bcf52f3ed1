"""Arithmetic on figures of devices: what is known of one without having it at hand."""
