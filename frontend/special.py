"""`frontend.special`: special functions. All but `gammainc`, `gammaincc` and polynomials whose
degrees are a tensor have compiled forms."""

from frontend.functions import bessel_and_gamma as _functions
from frontend.functions.bessel_and_gamma import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    entr,
    erfcx,
    hermite_polynomial_h,
    hermite_polynomial_he,
    i0,
    i0e,
    i1,
    i1e,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    log_ndtr,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    ndtr,
    ndtri,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    xlog1py,
    zeta,
)
from frontend.functions.bessel_and_gamma import igamma as gammainc
from frontend.functions.bessel_and_gamma import igammac as gammaincc
from frontend.functions.bessel_and_gamma import mvlgamma as multigammaln
from frontend.functions.pointwise_composites import logit, sinc, xlogy
from frontend.functions.reduce import log_softmax, logsumexp, softmax
from frontend.functions.unary import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    log1p,
    polygamma,
    round,
)
from frontend.functions.unary import digamma as psi
from frontend.functions.unary import lgamma as gammaln
from frontend.functions.unary import sigmoid as expit

_CHEBYSHEV = [f"{kind}chebyshev_polynomial_{name}" for kind in ("", "shifted_") for name in "tuvw"]
globals().update({name: getattr(_functions, name) for name in _CHEBYSHEV})

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc",
    "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e",
    "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "softmax",
    "spherical_bessel_j0", "xlog1py", "xlogy", "zeta", *_CHEBYSHEV,
]  # fmt: skip
