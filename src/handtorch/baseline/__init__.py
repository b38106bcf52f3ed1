"""What ours is compared with, and how to compare fairly in one process."""
