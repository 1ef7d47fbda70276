"""Of operator set ai.onnx.ml: labels that are numbers, and ensembles of trees."""

from __future__ import annotations

from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.errors import OnnxNotHere

ML = "ai.onnx.ml"


@onnx_op("LabelEncoder", 2, domain=ML)
def label_encoder(
    x: Tensor, *, keys_floats: Any = None, keys_int64s: Any = None, keys_tensor: Any = None,
    values_floats: Any = None, values_int64s: Any = None, values_tensor: Any = None,
    default_float: float = 0.0, default_int64: int = -1, default_tensor: Any = None,
    keys_strings: Any = None, values_strings: Any = None, default_string: str = "",
) -> Any:  # fmt: skip
    """The value that belongs to each key."""
    if keys_strings is not None or values_strings is not None:
        raise OnnxNotHere("labels that are strings", hint="encode texts outside the model")
    keys = next(k for k in (keys_tensor, keys_int64s, keys_floats) if k is not None)
    if values_tensor is not None:
        values, default = values_tensor, default_tensor.reshape(-1)[0]
    elif values_int64s is not None:
        values, default = np.array(values_int64s, np.int64), default_int64
    else:
        values, default = np.array(values_floats, np.float32), default_float
    table = torch.tensor(np.append(values, np.asarray(default, values.dtype)))
    same = x.unsqueeze(-1) == torch.tensor(np.asarray(keys)).to(x.dtype)
    if x.dtype.is_float:  # a NaN is a key like others
        known = torch.tensor(np.isnan(np.asarray(keys, np.float64)))
        same = same | (x.isnan().unsqueeze(-1) & known)
    places = torch.where(same.any(-1), same.to(torch.uint8).argmax(-1), len(keys))
    return table[places]


_COMPARISONS = {
    0: lambda x, s: x <= s, 1: lambda x, s: x < s, 2: lambda x, s: x >= s, 3: lambda x, s: x > s,
    4: lambda x, s: x == s, 5: lambda x, s: x != s,
}  # fmt: skip


@onnx_op("TreeEnsemble", 5, domain=ML)
def tree_ensemble(
    x: Tensor, *, aggregate_function: int = 1, leaf_targetids: Any, leaf_weights: Any,
    membership_values: Any = None, n_targets: int = 1, nodes_falseleafs: Any,
    nodes_falsenodeids: Any, nodes_featureids: Any, nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None, nodes_modes: Any, nodes_splits: Any,
    nodes_trueleafs: Any, nodes_truenodeids: Any, post_transform: int = 0, tree_roots: Any,
) -> Any:  # fmt: skip
    """All rows go down all trees at once, as many steps as there are nodes in the worst."""
    modes = np.asarray(nodes_modes).astype(int)
    if (modes == 6).any() or post_transform:
        raise OnnxNotHere("set membership and post_transform of trees")
    roots = torch.tensor(list(tree_roots))
    features, splits = torch.tensor(list(nodes_featureids)), torch.tensor(nodes_splits)
    kind, missing = torch.tensor(modes), nodes_missing_value_tracks_true
    yes, no = torch.tensor(list(nodes_truenodeids)), torch.tensor(list(nodes_falsenodeids))
    yes_leaf = torch.tensor(list(nodes_trueleafs)) != 0
    no_leaf = torch.tensor(list(nodes_falseleafs)) != 0
    at = roots.reshape(1, -1).expand(x.shape[0], len(tree_roots))
    done = torch.zeros(x.shape[0], len(tree_roots), dtype=torch.bool)
    for _ in range(len(nodes_modes)):
        node = torch.where(done, 0, at)
        value = x.gather(1, features[node])
        split = splits[node].to(x.dtype)
        taken = torch.zeros(x.shape[0], len(tree_roots), dtype=torch.bool)
        for number, compare in _COMPARISONS.items():
            taken = torch.where(kind[node] == number, compare(value, split), taken)
        if missing is not None:
            taken = taken | (value.isnan() & (torch.tensor(list(missing))[node] != 0))
        leaf = torch.where(taken, yes_leaf[node], no_leaf[node])
        at = torch.where(done, at, torch.where(taken, yes[node], no[node]))
        done = done | leaf
    weights = torch.tensor(leaf_weights)[at]
    targets = torch.tensor(list(leaf_targetids))[at]
    hot = targets.unsqueeze(-1) == torch.arange(n_targets)
    parts = torch.where(hot, weights.unsqueeze(-1), 0)
    if aggregate_function == 0:
        return parts.sum(1) / len(tree_roots)
    if aggregate_function == 1:
        return parts.sum(1)
    least = aggregate_function == 2
    filled = torch.where(hot, parts, float("inf") if least else float("-inf"))
    return filled.amin(1) if least else filled.amax(1)
