"""Stands in for wandb where it is not installed: nothing is logged with it."""
