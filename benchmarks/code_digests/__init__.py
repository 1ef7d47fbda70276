"""What machine_code.py compares: what is compiled (subjects.py), and digests of what became of it
(digests.py)."""
