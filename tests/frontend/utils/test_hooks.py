"""Handles of hooks."""

from __future__ import annotations

import gc
import pickle
from collections import OrderedDict
from typing import Any

import frontend as torch
from frontend import nn
from frontend.utils.hooks import RemovableHandle


def test_a_handle_takes_its_hook_off_once() -> None:
    hooks: OrderedDict[int, Any] = OrderedDict()
    first, second = RemovableHandle(hooks, print), RemovableHandle(hooks, repr)
    assert list(hooks) == [first.id, second.id] and first.id < second.id
    first.remove()
    first.remove()
    assert list(hooks.values()) == [repr]


def test_a_handle_is_a_context_manager() -> None:
    hooks: OrderedDict[int, Any] = OrderedDict()
    with RemovableHandle(hooks, print) as handle:
        assert hooks == {handle.id: print}
    assert not hooks


def test_what_else_is_known_of_a_hook_goes_too() -> None:
    hooks: OrderedDict[int, Any] = OrderedDict()
    marks: list[OrderedDict[int, Any]] = [OrderedDict(), OrderedDict()]
    handle = RemovableHandle(hooks, print, extra_dict=marks)
    marks[1][handle.id] = True
    handle.remove()
    assert not hooks and not marks[1]


def test_a_plain_dict_will_do() -> None:
    hooks: dict[int, Any] = {}
    with RemovableHandle(hooks, print):
        assert list(hooks.values()) == [print]
    assert not hooks


def test_a_handle_does_not_keep_a_module_alive() -> None:
    module = nn.ReLU()
    handle = module.register_forward_hook(lambda *_: None)
    del module
    gc.collect()
    assert handle.hooks_dict_ref() is None
    handle.remove()


def test_a_pickled_handle_belongs_to_the_pickled_module() -> None:
    module = nn.ReLU()
    handle = module.register_forward_hook(print)
    twin, other = pickle.loads(pickle.dumps((module, handle)))
    assert len(twin._forward_hooks) == 1
    other.remove()
    assert not twin._forward_hooks and module._forward_hooks
    lost = pickle.loads(pickle.dumps(handle))
    lost.remove()
    assert module._forward_hooks


def test_a_new_hook_does_not_take_the_place_of_an_unpickled_one() -> None:
    module = nn.ReLU()
    taken = RemovableHandle.next_id
    module._forward_hooks[taken] = print
    handle = module.register_forward_hook(repr)
    assert handle.id != taken and list(module._forward_hooks.values()) == [print, repr]


def test_tensor_hooks_give_such_handles() -> None:
    x = torch.ones(2, requires_grad=True)
    with x.register_hook(lambda grad: grad * 5) as handle:
        assert isinstance(handle, RemovableHandle)
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
