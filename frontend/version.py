"""The version of PyTorch whose behaviour is followed, and what this was built without."""

__version__ = "2.13.0+graphc"
"""Not a PyTorch: the local part says so, and scripts that compare versions get the right answer."""

cuda = None
hip = None
xpu = None
debug = False
