"""Whether a compiled call gives the right result, and if not, who made it wrong.

verifier takes one call through all levels: eager_stage, pass_stage, plan_stage, launch_stage and
call_stage each compare a level with the one before, and name the first that differs. op_kernels
computes graphs op by op, each by the kernel the compiler makes for it alone: level *exact* promises
those bits. bounds says how far NumPy may be from them, comparing tells arrays apart, findings is
what comes out, command is `graphc verify`.

launch_table tells which launch a plan is at; gradient_stage holds rules against numbers; rules has
the sentences of the numbered rules of all verifiers.
"""
