"""What a trace depended on besides its arguments: what code reads by name.

globals follows names through functions and containers, attributes through objects, classes and
Python modules, to values, without running anything of the user's. What a guard is: engine.outside.
"""
