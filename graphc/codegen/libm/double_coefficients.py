"""Numbers of `double_math`. Polynomials low order first; a pair is the nearest f64 and the rest."""

from __future__ import annotations

import math

TWO_OVER_PI = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e9700324977504"
    "e8c90e7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa4e422fc5defc941d8ffc"
    "4bffef02cc07f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516ba93dd63f5f2f8bd9e839cfbc52949"
    "7535fdafd88fc6ae842b0198237e3db5d5f",
    16,
)
"""2/π·2^1219, rounded down."""
PIECE_BITS = 53
PIECES = tuple(
    (TWO_OVER_PI >> PIECE_BITS * (22 - i)) % (1 << PIECE_BITS) * 2.0**-PIECE_BITS for i in range(23)
)
"""2/π, cut into pieces of so many bits, each as a fraction: piece i counts 2^(-PIECE_BITS·i)."""

PI = (math.pi, 1.2246467991473532e-16)
HALF_PI = (PI[0] / 2, PI[1] / 2)
QUARTER_PI = (PI[0] / 4, PI[1] / 4)
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
PER_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
PER_LN10 = (0.4342944819032518, 1.098319650216765e-17)
# In two parts, the first of 33 bits: its products with exponents are exact.
LN2_PARTS = (0.6931471803691238, 1.9082149292705877e-10)
LG_2_PARTS = (0.30102999560767785, 5.630334806675098e-11)
THIRD = (1 / 3, 1.850371707708594e-17)

# (e^r - 1 - r) / r² for |r| <= ln 2 / 2; and in a², (sin a - a) / a³ for |a| <= π/2 and
# (cos a - 1 + a²/2) / a⁴ for |a| <= π/4. All Taylor's.
EXPONENTIAL = tuple(1 / math.factorial(n) for n in range(2, 15))
SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(1, 11))
COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(2, 11))
# sinh x = x·HYPERBOLIC(x²) for |x| <= 1.
HYPERBOLIC = tuple(1 / math.factorial(2 * n + 1) for n in range(11))
# log((1 + s) / (1 - s)) = 2·s·(1 + s²/3 + s⁴·AREA(s²)) for |s| <= 0.172.
AREA = tuple(1 / (2 * n + 1) for n in range(2, 15))
# atan u = u + u³·ARC(u²) for |u| <= 0.415.
ARC = tuple((-1) ** n / (2 * n + 1) for n in range(1, 22))
# erf x = x·ERF(x²) for |x| <= 1.
ERF = tuple(
    (-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1)) for n in range(20)
)
# (1 + 2·x)·e^(x²)·erfc x in t = (x - 4) / (x + 4), for 0 <= x <= 27.7, beyond which f64 has 0.
ERFCX_MIDDLE, ERFC_LIMIT = 4.0, 27.7
ERFCX = (
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102619566,
    0.06809705425469335,
    -0.10103906603629509,
    0.09373283499832573,
    -0.06633036581239941,
    0.03716751553784746,
    -0.016197734056089274,
    0.005031969975016846,
    -0.0007577732969537471,
    -0.00019925668008521108,
    0.00015062169669083296,
    -2.4399259531089858e-05,
    -1.1222050608520201e-05,
    5.709818894655876e-06,
    2.9379857384723174e-07,
    -8.255149493210867e-07,
    7.467951282164273e-08,
    1.1008896126371261e-07,
    -1.7959991265886025e-08,
    -1.4093994795162527e-08,
    1.8527957098240822e-09,
    1.2587916031806218e-09,
)
# log Γ(1 + d) = d·(d - 1)·LGAMMA(d - 1/2) for 0 <= d <= 1.
LGAMMA = (
    0.4831289505409809,
    -0.14595989591430608,
    0.06291140107456439,
    -0.031308487501010646,
    0.01679709863127416,
    -0.009425622448525798,
    0.005446457839126065,
    -0.0032120740737152814,
    0.0019229163127905161,
    -0.0011644145847310124,
    0.000711519067515296,
    -0.00043799307479613914,
    0.00027131373861446925,
    -0.0001689178215524898,
    0.00010535512483785591,
    -6.614136022346414e-05,
    4.30276814976503e-05,
    -2.7201673025504752e-05,
    1.3186019073996835e-05,
    -8.355075869795273e-06,
    1.2140008083973407e-05,
    -7.760660152513446e-06,
)
# log Γ(x) = (x - 1/2)·log x - x + log(2π)/2 + STIRLING(1/x²)/x, for x >= 8.
STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
    43867 / 244188,
)  # fmt: skip
