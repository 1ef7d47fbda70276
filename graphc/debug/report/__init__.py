"""One HTML page about a call: what ran, for how long, why so, and what the compiler made of it.

data gathers it (passes, ledger, profile, plan, texts of kernels), packing makes it small enough to
lie inside the page, page puts it into template.html together with style.css and script.js. The page
needs no network and no library. command is `graphc report`.

graph_data and ledger_data are the columns that a page opens when it is asked.
"""
