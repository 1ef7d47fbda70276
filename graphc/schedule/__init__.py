"""Graph → plan: which nodes become one kernel, in which order, in which memory, on which threads.

Data goes through it in this order:

- prepare: composites expanded, checks of content made nodes; value_ranges says which cannot fail
- access: which elements a computation reads, the question fusion asks
- fusion: groups of nodes (groups); read_once says what a product computes for itself; merging
  merges them, and asks recompute_factor, output_layouts, reachability and horizontal_fusion; order:
  the order they run in
- build: the plan: kernel bodies (bodies), buffers, loops and branches (regions), in-place updates
  (in_place), of which some change a box alone (box_updates)
- arena, memory: where buffers lie, and how many bytes that takes
- threads: which steps are split or run concurrently (concurrency), and where barriers are needed
  (dependences); open_schedule: which, by the sizes of each call
- plan: the nodes and their text; plan_verifier: rules P1 to P8; run_plan: the runner of this level;
  instances: a plan of sizes known only at run time at certain sizes
"""
