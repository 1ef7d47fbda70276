"""Running compiled graphs.

compile makes what is called: program is what that needs, kept on disk; executable has fixed sizes,
sized_executable open ones, with blocks of memory lent from size to size. native_call is the way
from Python into native code, direct_call that of eager mode; random_words draws outside of graphs.
pool and pool_text are the threads, processors says how many there are, allocator keeps freed memory
for the next step. step_clock reads the clock around steps; filled_memory is for tests of what reads
memory that nobody wrote.
"""
