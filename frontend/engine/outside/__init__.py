"""What compiled functions read from outside of themselves, and what must hold of it.

source says where a value lives: an argument, a captured tensor, a gradient, an attribute, an item,
a closure variable. check says what must hold of the value that stands there. guard puts the two
together, and writes the code by which a call is checked; constants are what that code names.

bytecode lists the names that functions read. kinds says what sort of thing a value is, containers
what it holds, both without running code of the user's; items and reads are the sources and checks
of what stands in containers, and of what code has read by name.
"""
