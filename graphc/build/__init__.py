"""What was compiled leaves: an object file, a header, the state, a program that proves the bits.

built_source says what is built: graphs of one function, each with the sizes it serves, and its
state. packed_weights takes off what weights alone decide. object_file plans the graphs as
built_programs, and makes one module of their kernels and drivers
(by codegen), of entry_points (in function_lines; number_text has guards and numbers of a call) and
of what an object brings along: functions of brought_along, which are Python (memory_access) and
LLVM IR by translation. state_layout places the state in a struct, identifiers gives names that C
and C++ take, error_texts numbers what can go wrong. header writes the header, proof the C program
with its data, building all files. shared_library links, and writes the module that calls a library
from Python, of which ctypes_module is the template. wasm_module makes a module of LLVM's object of
WebAssembly, javascript writes what loads it (loader.js), page the HTML file that runs it (live.js).
"""
