"""Recognition in the cloud: the server, its client, and what both of them say to each other."""
