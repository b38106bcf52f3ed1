"""Numbers that others printed of phones and boards, each marked before anything was fitted."""
