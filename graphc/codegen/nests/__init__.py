"""Nests: a kernel as a value, between the plan and the loop IR; third of the five levels.

in : axes, their splits with named tails, stages, sums, and leaves (what a strategy decided)
out: a text, what the verifier's rules say of it, its results in NumPy, and its loops

`nest` says what a nest is, `tails` what becomes of what a split leaves over, `writer` is the one
place that makes loops of it, `printer` its text. `verifier` holds the rules, those of sums in
`sums_verifier`, over the statements where they stand (`visits`). `walk` goes through the value tile
by tile (`tiles`), for `runner`, which adds products, and `element_runner`, where there are none
(sums of elements are `level_sums`).
"""
