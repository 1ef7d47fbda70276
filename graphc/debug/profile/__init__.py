"""Where a compiled call's time goes, and how far each launch is from what the machine can do.

profiler runs a call behind a driver that reads the clock (graphc.runtime.step_clock), and makes a
`Profile` of its best passes. machine measures what one core can do, work counts what a kernel has
to do, residency tells in which cache what it reads lies; limits puts the three together. table,
chrome_trace and perf_map show a profile.

rates are the measured ones of a core; calls profiles a traced object's native calls.
"""
