"""Fuzzers: drawn inputs, what must hold for each, and the smallest input found that breaks it.

    python -m tests.fuzz --minutes 10 [name …]

draws on and on. The suite draws a few of each, from fixed seeds (test_fuzzers.py). A fuzzer is a
`Fuzzer` (frame.py) in the list of registry.py.
"""
