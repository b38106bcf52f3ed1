"""The vocabulary every other room speaks; standard library only."""
