"""What computes an op in eager mode: code compiled for it alone.

native_ops finds the kernel of a call, prepared once. kernel_families are kernels that serve all
sizes: openings says which extents they leave open, merged_axes which axes count as one, layouts how
operands lie in memory; pointwise has those of elementwise ops, which need few axes. gradient_rule
makes an op of a gradient rule, so that it has a kernel too; gradient_worker is the process that
compiles those of backward while forward still runs. blocked runs functions of many steps block by
block.
"""
