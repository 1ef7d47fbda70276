"""Architectures of timm: the side of the image, and options that make the model small."""
TIMM = {}
