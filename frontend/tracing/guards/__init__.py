"""What a trace depended on besides its arguments, and whether it has changed since.

bytecode lists the names that functions read, globals follows them to values without running
anything, checks are the guards themselves.
"""
