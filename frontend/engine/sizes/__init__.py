"""Which sizes and numbers a program leaves open, below what traces.

size_rules is what users say of it, open_sizes what differs among the arguments of calls, places
what differs among numbers outside (attributes, globals, items). sized_memo keeps what rests on
answers to questions about sizes, with the guards it holds under. What a trace computes of such
numbers is tracing.call_numbers; compiled.sizing and compiled.free_numbers choose by them.
"""
