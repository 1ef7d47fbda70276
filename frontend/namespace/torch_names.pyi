# Written by `python -m frontend.namespace.lazily`, which a test holds it to.
# ruff: noqa
# fmt: off
from frontend.functions.bessel_and_gamma import i0 as i0
from frontend.functions.bessel_and_gamma import mvlgamma as mvlgamma
from frontend.functions.bessel_and_gamma import igamma as igamma
from frontend.functions.bessel_and_gamma import igammac as igammac
from frontend.functions.compaction import nonzero_static as nonzero_static
from frontend.functions.complex_numbers import real as real
from frontend.functions.complex_numbers import imag as imag
from frontend.functions.complex_numbers import view_as_real as view_as_real
from frontend.functions.complex_numbers import view_as_complex as view_as_complex
from frontend.functions.complex_numbers import view_as_real_copy as view_as_real_copy
from frontend.functions.complex_numbers import view_as_complex_copy as view_as_complex_copy
from frontend.functions.complex_numbers import complex as complex
from frontend.functions.complex_numbers import polar as polar
from frontend.functions.complex_numbers import conj as conj
from frontend.functions.complex_numbers import conj_physical as conj_physical
from frontend.functions.complex_numbers import angle as angle
from frontend.functions.complex_numbers import isreal as isreal
from frontend.functions.complex_numbers import is_complex as is_complex
from frontend.functions.complex_numbers import is_conj as is_conj
from frontend.functions.complex_numbers import is_neg as is_neg
from frontend.functions.complex_numbers import resolve_conj as resolve_conj
from frontend.functions.complex_numbers import resolve_neg as resolve_neg
from frontend.functions.control import cond as cond
from frontend.functions.control import while_loop as while_loop
from frontend.functions.control import scan as scan
from frontend.functions.copies import alias_copy as alias_copy
from frontend.functions.copies import as_strided_copy as as_strided_copy
from frontend.functions.copies import detach_copy as detach_copy
from frontend.functions.copies import diagonal_copy as diagonal_copy
from frontend.functions.copies import expand_copy as expand_copy
from frontend.functions.copies import narrow_copy as narrow_copy
from frontend.functions.copies import permute_copy as permute_copy
from frontend.functions.copies import select_copy as select_copy
from frontend.functions.copies import slice_copy as slice_copy
from frontend.functions.copies import split_copy as split_copy
from frontend.functions.copies import split_with_sizes_copy as split_with_sizes_copy
from frontend.functions.copies import squeeze_copy as squeeze_copy
from frontend.functions.copies import t_copy as t_copy
from frontend.functions.copies import transpose_copy as transpose_copy
from frontend.functions.copies import unbind_copy as unbind_copy
from frontend.functions.copies import unfold_copy as unfold_copy
from frontend.functions.copies import unsqueeze_copy as unsqueeze_copy
from frontend.functions.copies import view_copy as view_copy
from frontend.functions.creation import tensor as tensor
from frontend.functions.creation import as_tensor as as_tensor
from frontend.functions.creation import asarray as asarray
from frontend.functions.creation import from_numpy as from_numpy
from frontend.functions.creation import frombuffer as frombuffer
from frontend.functions.creation import scalar_tensor as scalar_tensor
from frontend.functions.creation import full as full
from frontend.functions.creation import zeros as zeros
from frontend.functions.creation import ones as ones
from frontend.functions.creation import empty as empty
from frontend.functions.creation import empty_strided as empty_strided
from frontend.functions.creation import full_like as full_like
from frontend.functions.creation import zeros_like as zeros_like
from frontend.functions.creation import ones_like as ones_like
from frontend.functions.creation import empty_like as empty_like
from frontend.functions.differences import diff as diff
from frontend.functions.differences import gradient as gradient
from frontend.functions.differences import trapezoid as trapezoid
from frontend.functions.differences import trapz as trapz
from frontend.functions.differences import cumulative_trapezoid as cumulative_trapezoid
from frontend.functions.differences import cov as cov
from frontend.functions.differences import corrcoef as corrcoef
from frontend.functions.distances import dist as dist
from frontend.functions.distances import cdist as cdist
from frontend.functions.drawn_numbers import poisson as poisson
from frontend.functions.drawn_numbers import binomial as binomial
from frontend.functions.einsum import einsum as einsum
from frontend.functions.einsum import tensordot as tensordot
from frontend.functions.einsum import kron as kron
from frontend.functions.histograms import histogram as histogram
from frontend.functions.histograms import histogramdd as histogramdd
from frontend.functions.index import index_put as index_put
from frontend.functions.integers_and_mantissas import gcd as gcd
from frontend.functions.integers_and_mantissas import lcm as lcm
from frontend.functions.integers_and_mantissas import nextafter as nextafter
from frontend.functions.integers_and_mantissas import frexp as frexp
from frontend.functions.integers_and_mantissas import unravel_index as unravel_index
from frontend.functions.integers_and_mantissas import hash_tensor as hash_tensor
from frontend.functions.layout import reshape as reshape
from frontend.functions.layout import flatten as flatten
from frontend.functions.layout import ravel as ravel
from frontend.functions.layout import unflatten as unflatten
from frontend.functions.layout import squeeze as squeeze
from frontend.functions.layout import unsqueeze as unsqueeze
from frontend.functions.layout import atleast_1d as atleast_1d
from frontend.functions.layout import atleast_2d as atleast_2d
from frontend.functions.layout import atleast_3d as atleast_3d
from frontend.functions.layout import permute as permute
from frontend.functions.layout import transpose as transpose
from frontend.functions.layout import swapdims as swapdims
from frontend.functions.layout import swapaxes as swapaxes
from frontend.functions.layout import t as t
from frontend.functions.layout import adjoint as adjoint
from frontend.functions.layout import movedim as movedim
from frontend.functions.layout import moveaxis as moveaxis
from frontend.functions.layout import broadcast_to as broadcast_to
from frontend.functions.layout import broadcast_shapes as broadcast_shapes
from frontend.functions.layout import broadcast_tensors as broadcast_tensors
from frontend.functions.layout import narrow as narrow
from frontend.functions.linalg import chain_matmul as chain_matmul
from frontend.functions.linalg import matrix_power as matrix_power
from frontend.functions.linalg import cross as cross
from frontend.functions.linear_algebra.factorizations import cholesky_solve as cholesky_solve
from frontend.functions.linear_algebra.factorizations import cholesky_inverse as cholesky_inverse
from frontend.functions.linear_algebra.factorizations import geqrf as geqrf
from frontend.functions.linear_algebra.factorizations import householder_product as orgqr
from frontend.functions.linear_algebra.factorizations import ormqr as ormqr
from frontend.functions.linear_algebra.factorizations import lu_unpack as lu_unpack
from frontend.functions.linear_algebra.former import cholesky as cholesky
from frontend.functions.linear_algebra.former import pinverse as pinverse
from frontend.functions.linear_algebra.former import qr as qr
from frontend.functions.linear_algebra.former import svd as svd
from frontend.functions.linear_algebra.former import triangular_solve as triangular_solve
from frontend.functions.linear_algebra.former import lu as lu
from frontend.functions.linear_algebra.former import lu_solve as lu_solve
from frontend.functions.linear_algebra.former import frobenius_norm as frobenius_norm
from frontend.functions.linear_algebra.former import nuclear_norm as nuclear_norm
from frontend.functions.linear_algebra.former import eig as eig
from frontend.functions.linear_algebra.former import lstsq as lstsq
from frontend.functions.linear_algebra.former import matrix_rank as matrix_rank
from frontend.functions.linear_algebra.former import solve as solve
from frontend.functions.linear_algebra.former import symeig as symeig
from frontend.functions.linear_algebra.functions_of_matrices import matrix_exp as matrix_exp
from frontend.functions.linear_algebra.functions_of_matrices import vander as vander
from frontend.functions.linear_algebra.functions_of_matrices import svd_lowrank as svd_lowrank
from frontend.functions.linear_algebra.functions_of_matrices import pca_lowrank as pca_lowrank
from frontend.functions.linear_algebra.solving import inv as inverse
from frontend.functions.linear_algebra.solving import det as det
from frontend.functions.linear_algebra.solving import slogdet as slogdet
from frontend.functions.linear_algebra.solving import logdet as logdet
from frontend.functions.logic import eq as eq
from frontend.functions.logic import ne as ne
from frontend.functions.logic import not_equal as not_equal
from frontend.functions.logic import lt as lt
from frontend.functions.logic import less as less
from frontend.functions.logic import le as le
from frontend.functions.logic import less_equal as less_equal
from frontend.functions.logic import gt as gt
from frontend.functions.logic import greater as greater
from frontend.functions.logic import ge as ge
from frontend.functions.logic import greater_equal as greater_equal
from frontend.functions.logic import logical_and as logical_and
from frontend.functions.logic import logical_or as logical_or
from frontend.functions.logic import logical_xor as logical_xor
from frontend.functions.logic import logical_not as logical_not
from frontend.functions.logic import bitwise_and as bitwise_and
from frontend.functions.logic import bitwise_or as bitwise_or
from frontend.functions.logic import bitwise_xor as bitwise_xor
from frontend.functions.logic import bitwise_left_shift as bitwise_left_shift
from frontend.functions.logic import bitwise_right_shift as bitwise_right_shift
from frontend.functions.logic import bitwise_not as bitwise_not
from frontend.functions.logic import isnan as isnan
from frontend.functions.logic import isinf as isinf
from frontend.functions.logic import isfinite as isfinite
from frontend.functions.logic import isclose as isclose
from frontend.functions.logic import allclose as allclose
from frontend.functions.logic import equal as equal
from frontend.functions.masks import masked_fill as masked_fill
from frontend.functions.masks import masked_scatter as masked_scatter
from frontend.functions.masks import masked_select as masked_select
from frontend.functions.masks import nonzero as nonzero
from frontend.functions.masks import argwhere as argwhere
from frontend.functions.matrix import matmul as matmul
from frontend.functions.matrix import mm as mm
from frontend.functions.matrix import bmm as bmm
from frontend.functions.matrix import mv as mv
from frontend.functions.matrix import dot as dot
from frontend.functions.matrix import vdot as vdot
from frontend.functions.matrix import inner as inner
from frontend.functions.matrix import outer as outer
from frontend.functions.matrix import ger as ger
from frontend.functions.matrix import addmm as addmm
from frontend.functions.matrix import addmv as addmv
from frontend.functions.matrix import addr as addr
from frontend.functions.matrix import baddbmm as baddbmm
from frontend.functions.matrix import addbmm as addbmm
from frontend.functions.memory import resize_as_ as resize_as_
from frontend.functions.memory_order import empty_permuted as empty_permuted
from frontend.functions.memory_order import as_strided_scatter as as_strided_scatter
from frontend.functions.norms import norm as norm
from frontend.functions.norms import renorm as renorm
from frontend.functions.order import sort as sort
from frontend.functions.order import argsort as argsort
from frontend.functions.order import msort as msort
from frontend.functions.order import topk as topk
from frontend.functions.order import kthvalue as kthvalue
from frontend.functions.order import cumsum as cumsum
from frontend.functions.order import cumprod as cumprod
from frontend.functions.order import logcumsumexp as logcumsumexp
from frontend.functions.order import cummax as cummax
from frontend.functions.order import cummin as cummin
from frontend.functions.order import searchsorted as searchsorted
from frontend.functions.order import bucketize as bucketize
from frontend.functions.order import isin as isin
from frontend.functions.order_statistics import median as median
from frontend.functions.order_statistics import nanmedian as nanmedian
from frontend.functions.order_statistics import mode as mode
from frontend.functions.order_statistics import quantile as quantile
from frontend.functions.order_statistics import nanquantile as nanquantile
from frontend.functions.order_statistics import unique as unique
from frontend.functions.order_statistics import unique_consecutive as unique_consecutive
from frontend.functions.order_statistics import bincount as bincount
from frontend.functions.order_statistics import histc as histc
from frontend.functions.pointwise import add as add
from frontend.functions.pointwise import sub as sub
from frontend.functions.pointwise import subtract as subtract
from frontend.functions.pointwise import rsub as rsub
from frontend.functions.pointwise import mul as mul
from frontend.functions.pointwise import multiply as multiply
from frontend.functions.pointwise import addcmul as addcmul
from frontend.functions.pointwise import addcdiv as addcdiv
from frontend.functions.pointwise import lerp as lerp
from frontend.functions.pointwise import div as div
from frontend.functions.pointwise import divide as divide
from frontend.functions.pointwise import true_divide as true_divide
from frontend.functions.pointwise import floor_divide as floor_divide
from frontend.functions.pointwise import remainder as remainder
from frontend.functions.pointwise import fmod as fmod
from frontend.functions.pointwise import pow as pow
from frontend.functions.pointwise import float_power as float_power
from frontend.functions.pointwise import maximum as maximum
from frontend.functions.pointwise import minimum as minimum
from frontend.functions.pointwise import fmax as fmax
from frontend.functions.pointwise import fmin as fmin
from frontend.functions.pointwise import clamp as clamp
from frontend.functions.pointwise import clip as clip
from frontend.functions.pointwise import clamp_min as clamp_min
from frontend.functions.pointwise import clamp_max as clamp_max
from frontend.functions.pointwise import where as where
from frontend.functions.pointwise import clone as clone
from frontend.functions.pointwise_composites import atan2 as atan2
from frontend.functions.pointwise_composites import arctan2 as arctan2
from frontend.functions.pointwise_composites import hypot as hypot
from frontend.functions.pointwise_composites import logaddexp as logaddexp
from frontend.functions.pointwise_composites import logaddexp2 as logaddexp2
from frontend.functions.pointwise_composites import xlogy as xlogy
from frontend.functions.pointwise_composites import copysign as copysign
from frontend.functions.pointwise_composites import heaviside as heaviside
from frontend.functions.pointwise_composites import ldexp as ldexp
from frontend.functions.pointwise_composites import sinc as sinc
from frontend.functions.pointwise_composites import logit as logit
from frontend.functions.pointwise_composites import deg2rad as deg2rad
from frontend.functions.pointwise_composites import rad2deg as rad2deg
from frontend.functions.pointwise_composites import nan_to_num as nan_to_num
from frontend.functions.pointwise_composites import isposinf as isposinf
from frontend.functions.pointwise_composites import isneginf as isneginf
from frontend.functions.quantization import int_mm as _int_mm
from frontend.functions.quantization import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
from frontend.functions.quantization import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
from frontend.functions.quantization import quantize_per_tensor as quantize_per_tensor
from frontend.functions.quantization import quantize_per_channel as quantize_per_channel
from frontend.functions.quantization import dequantize as dequantize
from frontend.functions.random import manual_seed as manual_seed
from frontend.functions.random import seed as seed
from frontend.functions.random import initial_seed as initial_seed
from frontend.functions.random import get_rng_state as get_rng_state
from frontend.functions.random import set_rng_state as set_rng_state
from frontend.functions.random import fork_rng as fork_rng
from frontend.functions.random import rand as rand
from frontend.functions.random import randn as randn
from frontend.functions.random import randint as randint
from frontend.functions.random import randperm as randperm
from frontend.functions.random import rand_like as rand_like
from frontend.functions.random import randn_like as randn_like
from frontend.functions.random import randint_like as randint_like
from frontend.functions.ranges import arange as arange
from frontend.functions.ranges import range as range
from frontend.functions.ranges import linspace as linspace
from frontend.functions.ranges import logspace as logspace
from frontend.functions.ranges import eye as eye
from frontend.functions.rearrange import flip as flip
from frontend.functions.rearrange import fliplr as fliplr
from frontend.functions.rearrange import flipud as flipud
from frontend.functions.rearrange import rot90 as rot90
from frontend.functions.rearrange import roll as roll
from frontend.functions.rearrange import meshgrid as meshgrid
from frontend.functions.rearrange import cartesian_prod as cartesian_prod
from frontend.functions.rearrange import combinations as combinations
from frontend.functions.rearrange import block_diag as block_diag
from frontend.functions.reduce import sum as sum
from frontend.functions.reduce import nansum as nansum
from frontend.functions.reduce import prod as prod
from frontend.functions.reduce import count_nonzero as count_nonzero
from frontend.functions.reduce import amax as amax
from frontend.functions.reduce import amin as amin
from frontend.functions.reduce import aminmax as aminmax
from frontend.functions.reduce import argmax as argmax
from frontend.functions.reduce import argmin as argmin
from frontend.functions.reduce import max as max
from frontend.functions.reduce import min as min
from frontend.functions.reduce import any as any
from frontend.functions.reduce import all as all
from frontend.functions.reduce import softmax as softmax
from frontend.functions.reduce import log_softmax as log_softmax
from frontend.functions.reduce import logsumexp as logsumexp
from frontend.functions.repeating import tile as tile
from frontend.functions.repeating import repeat_interleave as repeat_interleave
from frontend.functions.sampling import bernoulli as bernoulli
from frontend.functions.sampling import normal as normal
from frontend.functions.sampling import multinomial as multinomial
from frontend.functions.scatter import gather as gather
from frontend.functions.scatter import take_along_dim as take_along_dim
from frontend.functions.scatter import scatter as scatter
from frontend.functions.scatter import scatter_add as scatter_add
from frontend.functions.scatter import scatter_reduce as scatter_reduce
from frontend.functions.scatter import index_select as index_select
from frontend.functions.scatter import index_add as index_add
from frontend.functions.scatter import index_copy as index_copy
from frontend.functions.scatter import index_fill as index_fill
from frontend.functions.scatter import index_reduce as index_reduce
from frontend.functions.scatter import take as take
from frontend.functions.scatter import put as put
from frontend.functions.select import tril as tril
from frontend.functions.select import triu as triu
from frontend.functions.select import tril_indices as tril_indices
from frontend.functions.select import triu_indices as triu_indices
from frontend.functions.select import diagonal as diagonal
from frontend.functions.select import diag_embed as diag_embed
from frontend.functions.select import diag as diag
from frontend.functions.select import diagflat as diagflat
from frontend.functions.select import diagonal_scatter as diagonal_scatter
from frontend.functions.select import select as select
from frontend.functions.select import select_scatter as select_scatter
from frontend.functions.select import slice_scatter as slice_scatter
from frontend.functions.select import as_strided as as_strided
from frontend.functions.shape import cat as cat
from frontend.functions.shape import concat as concat
from frontend.functions.shape import concatenate as concatenate
from frontend.functions.shape import stack as stack
from frontend.functions.shape import hstack as hstack
from frontend.functions.shape import vstack as vstack
from frontend.functions.shape import row_stack as row_stack
from frontend.functions.shape import dstack as dstack
from frontend.functions.shape import column_stack as column_stack
from frontend.functions.shape import split as split
from frontend.functions.shape import unsafe_split as unsafe_split
from frontend.functions.shape import split_with_sizes as split_with_sizes
from frontend.functions.shape import chunk as chunk
from frontend.functions.shape import unsafe_chunk as unsafe_chunk
from frontend.functions.shape import unbind as unbind
from frontend.functions.shape import tensor_split as tensor_split
from frontend.functions.shape import hsplit as hsplit
from frontend.functions.shape import vsplit as vsplit
from frontend.functions.shape import dsplit as dsplit
from frontend.functions.sparse_layouts import sparse_coo_tensor as sparse_coo_tensor
from frontend.functions.sparse_layouts import sparse_csr_tensor as sparse_csr_tensor
from frontend.functions.sparse_layouts import sparse_csc_tensor as sparse_csc_tensor
from frontend.functions.sparse_layouts import sparse_compressed_tensor as sparse_compressed_tensor
from frontend.functions.sparse_layouts import to_sparse as to_sparse
from frontend.functions.sparse_layouts import spmm as spmm
from frontend.functions.sparse_layouts import dsmm as dsmm
from frontend.functions.statistics import mean as mean
from frontend.functions.statistics import nanmean as nanmean
from frontend.functions.statistics import var as var
from frontend.functions.statistics import std as std
from frontend.functions.statistics import var_mean as var_mean
from frontend.functions.statistics import std_mean as std_mean
from frontend.functions.tensor_properties import is_nonzero as is_nonzero
from frontend.functions.tensor_properties import is_same_size as is_same_size
from frontend.functions.tensor_properties import is_signed as is_signed
from frontend.functions.tensor_properties import get_device as get_device
from frontend.functions.tensor_properties import is_inference as is_inference
from frontend.functions.tensor_properties import is_inference_mode_enabled as is_inference_mode_enabled
from frontend.functions.tensor_types import FloatTensor as FloatTensor
from frontend.functions.tensor_types import DoubleTensor as DoubleTensor
from frontend.functions.tensor_types import HalfTensor as HalfTensor
from frontend.functions.tensor_types import BFloat16Tensor as BFloat16Tensor
from frontend.functions.tensor_types import ByteTensor as ByteTensor
from frontend.functions.tensor_types import CharTensor as CharTensor
from frontend.functions.tensor_types import ShortTensor as ShortTensor
from frontend.functions.tensor_types import IntTensor as IntTensor
from frontend.functions.tensor_types import LongTensor as LongTensor
from frontend.functions.tensor_types import BoolTensor as BoolTensor
from frontend.functions.tensor_types import set_default_tensor_type as set_default_tensor_type
from frontend.functions.tensor_types import typename as typename
from frontend.functions.torch_in_place import as_strided_ as as_strided_
from frontend.functions.torch_in_place import detach_ as detach_
from frontend.functions.torch_in_place import fill_ as fill_
from frontend.functions.torch_in_place import zero_ as zero_
from frontend.functions.torch_in_place import detach as detach
from frontend.functions.torch_in_place import fill as fill
from frontend.functions.unary import exp as exp
from frontend.functions.unary import exp2 as exp2
from frontend.functions.unary import expm1 as expm1
from frontend.functions.unary import log as log
from frontend.functions.unary import log2 as log2
from frontend.functions.unary import log10 as log10
from frontend.functions.unary import log1p as log1p
from frontend.functions.unary import sqrt as sqrt
from frontend.functions.unary import rsqrt as rsqrt
from frontend.functions.unary import sigmoid as sigmoid
from frontend.functions.unary import sin as sin
from frontend.functions.unary import cos as cos
from frontend.functions.unary import tan as tan
from frontend.functions.unary import asin as asin
from frontend.functions.unary import arcsin as arcsin
from frontend.functions.unary import acos as acos
from frontend.functions.unary import arccos as arccos
from frontend.functions.unary import atan as atan
from frontend.functions.unary import arctan as arctan
from frontend.functions.unary import sinh as sinh
from frontend.functions.unary import cosh as cosh
from frontend.functions.unary import tanh as tanh
from frontend.functions.unary import asinh as asinh
from frontend.functions.unary import arcsinh as arcsinh
from frontend.functions.unary import acosh as acosh
from frontend.functions.unary import arccosh as arccosh
from frontend.functions.unary import atanh as atanh
from frontend.functions.unary import arctanh as arctanh
from frontend.functions.unary import erf as erf
from frontend.functions.unary import erfc as erfc
from frontend.functions.unary import erfinv as erfinv
from frontend.functions.unary import lgamma as lgamma
from frontend.functions.unary import digamma as digamma
from frontend.functions.unary import polygamma as polygamma
from frontend.functions.unary import floor as floor
from frontend.functions.unary import ceil as ceil
from frontend.functions.unary import trunc as trunc
from frontend.functions.unary import fix as fix
from frontend.functions.unary import round as round
from frontend.functions.unary import frac as frac
from frontend.functions.unary import abs as abs
from frontend.functions.unary import absolute as absolute
from frontend.functions.unary import neg as neg
from frontend.functions.unary import negative as negative
from frontend.functions.unary import positive as positive
from frontend.functions.unary import sign as sign
from frontend.functions.unary import sgn as sgn
from frontend.functions.unary import signbit as signbit
from frontend.functions.unary import square as square
from frontend.functions.unary import reciprocal as reciprocal
from frontend.functions.unary import relu as relu
from frontend.functions.windows import hann_window as hann_window
from frontend.functions.windows import hamming_window as hamming_window
from frontend.functions.windows import blackman_window as blackman_window
from frontend.functions.windows import bartlett_window as bartlett_window
from frontend.functions.windows import kaiser_window as kaiser_window
from frontend.nn.functional.activation import prelu as prelu
from frontend.nn.functional.activation import hardshrink as hardshrink
from frontend.nn.functional.activation import relu_ as relu_
from frontend.nn.functional.activation import rrelu_ as rrelu_
from frontend.nn.functional.activation import threshold_ as threshold_
from frontend.nn.functional.activation import selu_ as selu_
from frontend.nn.functional.activation import celu_ as celu_
from frontend.nn.functional.adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from frontend.nn.functional.conv import conv1d as conv1d
from frontend.nn.functional.conv import conv2d as conv2d
from frontend.nn.functional.conv import conv3d as conv3d
from frontend.nn.functional.conv import conv_tbc as conv_tbc
from frontend.nn.functional.conv import conv_transpose1d as conv_transpose1d
from frontend.nn.functional.conv import conv_transpose2d as conv_transpose2d
from frontend.nn.functional.conv import conv_transpose3d as conv_transpose3d
from frontend.nn.functional.distance import cosine_similarity as cosine_similarity
from frontend.nn.functional.distance import pairwise_distance as pairwise_distance
from frontend.nn.functional.distance import pdist as pdist
from frontend.nn.functional.grouped import grouped_mm as _grouped_mm
from frontend.nn.functional.linear import bilinear as bilinear
from frontend.nn.functional.native_layers import native_layer_norm as native_layer_norm
from frontend.nn.functional.native_layers import embedding_bag as embedding_bag
from frontend.nn.functional.native_layers import native_group_norm as native_group_norm
from frontend.nn.functional.native_layers import native_batch_norm as native_batch_norm
from frontend.nn.functional.native_layers import native_dropout as native_dropout
from frontend.nn.functional.native_layers import native_norm as native_norm
from frontend.nn.functional.native_layers import embedding_renorm_ as embedding_renorm_
from frontend.nn.functional.native_layers import grid_sampler as grid_sampler
from frontend.nn.functional.native_layers import grid_sampler_2d as grid_sampler_2d
from frontend.nn.functional.native_layers import grid_sampler_3d as grid_sampler_3d
from frontend.nn.functional.native_layers import affine_grid_generator as affine_grid_generator
from frontend.nn.functional.native_layers import constant_pad_nd as constant_pad_nd
from frontend.nn.functional.pooling import max_pool1d as max_pool1d
from frontend.nn.functional.pooling import max_pool2d as max_pool2d
from frontend.nn.functional.pooling import max_pool3d as max_pool3d
from frontend.nn.functional.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from frontend.nn.functional.pooling import avg_pool1d as avg_pool1d
from frontend.nn.functional.short_time import stft as stft
from frontend.nn.functional.short_time import istft as istft
from frontend.nn.functional.torch_layers import celu as celu
from frontend.nn.functional.torch_layers import selu as selu
from frontend.nn.functional.torch_layers import rrelu as rrelu
from frontend.nn.functional.torch_layers import threshold as threshold
from frontend.nn.functional.torch_layers import dropout as dropout
from frontend.nn.functional.torch_layers import alpha_dropout as alpha_dropout
from frontend.nn.functional.torch_layers import feature_alpha_dropout as feature_alpha_dropout
from frontend.nn.functional.torch_layers import dropout_ as dropout_
from frontend.nn.functional.torch_layers import alpha_dropout_ as alpha_dropout_
from frontend.nn.functional.torch_layers import feature_alpha_dropout_ as feature_alpha_dropout_
from frontend.nn.functional.torch_layers import embedding as embedding
from frontend.nn.functional.torch_layers import batch_norm as batch_norm
from frontend.nn.functional.torch_layers import instance_norm as instance_norm
from frontend.nn.functional.torch_layers import layer_norm as layer_norm
from frontend.nn.functional.torch_layers import rms_norm as rms_norm
from frontend.nn.functional.torch_layers import group_norm as group_norm
from frontend.nn.functional.torch_layers import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from frontend.nn.functional.torch_layers import kl_div as kl_div
from frontend.nn.functional.torch_layers import hinge_embedding_loss as hinge_embedding_loss
from frontend.nn.functional.torch_layers import cosine_embedding_loss as cosine_embedding_loss
from frontend.nn.functional.torch_layers import margin_ranking_loss as margin_ranking_loss
from frontend.nn.functional.torch_layers import triplet_margin_loss as triplet_margin_loss
from frontend.nn.functional.torch_layers import poisson_nll_loss as poisson_nll_loss
from frontend.nn.functional.torch_layers import ctc_loss as ctc_loss
from frontend.nn.functional.torch_spatial import adaptive_max_pool1d as adaptive_max_pool1d
from frontend.nn.functional.vision import pixel_shuffle as pixel_shuffle
from frontend.nn.functional.vision import pixel_unshuffle as pixel_unshuffle
from frontend.nn.functional.vision import channel_shuffle as channel_shuffle
from frontend.nn.functional.vision import native_channel_shuffle as native_channel_shuffle
from frontend.nn.recurrent_functions import lstm as lstm
from frontend.nn.recurrent_functions import gru as gru
from frontend.nn.recurrent_functions import rnn_tanh as rnn_tanh
from frontend.nn.recurrent_functions import rnn_relu as rnn_relu
from frontend.nn.recurrent_functions import lstm_cell as lstm_cell
from frontend.nn.recurrent_functions import gru_cell as gru_cell
from frontend.nn.recurrent_functions import rnn_tanh_cell as rnn_tanh_cell
from frontend.nn.recurrent_functions import rnn_relu_cell as rnn_relu_cell
from typing import Any
from frontend.engine.tensors.tensor import Tensor

def abs_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def acos_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def acosh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def addmv_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arccos_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arccosh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arcsin_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arcsinh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arctan_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def arctanh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def asin_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def asinh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def atan_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def atanh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def ceil_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def clamp_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def clamp_max_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def clamp_min_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def clip_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def conj_physical_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def cos_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def cosh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def deg2rad_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def erf_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def erfc_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def exp2_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def exp_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def expm1_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def fix_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def floor_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def frac_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def gcd_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def i0_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def index_put_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def lcm_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def ldexp_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def log10_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def log1p_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def log2_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def log_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def logit_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def nan_to_num_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def neg_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def negative_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def rad2deg_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def reciprocal_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def round_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def rsqrt_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def sigmoid_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def sin_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def sinc_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def sinh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def sqrt_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def square_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def tan_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def tanh_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def trunc_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
def xlogy_(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
