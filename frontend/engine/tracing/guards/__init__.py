"""What a trace depended on besides its arguments, and whether it has changed since.

bytecode lists the names that functions read, globals follows them through functions and containers,
attributes through objects, classes and Python modules, to values, without running anything of the
user's: kinds says what sort of thing a value is, reads and items are the guards on what was found.
What a guard is: frontend/engine/outside.
"""
