"""Eager quantization as PyTorch's pages describe it: dynamic, static after training, while
training, observers by channel, fused layers, stubs, custom modules, and what compares the numbers
of two models."""

import copy
import warnings

import torch
import torch.ao.ns._numeric_suite as ns
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub,
    FakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    QuantStub,
    QuantWrapper,
    convert,
    default_dynamic_qconfig,
    disable_observer,
    fuse_modules,
    fuse_modules_qat,
    get_default_qat_qconfig,
    get_default_qconfig,
    prepare,
    prepare_qat,
    quantize,
    quantize_dynamic,
    quantize_qat,
)


class Net(nn.Module):
    """A convolution with its normalization, a residual sum, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv1, self.bn1, self.relu1 = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.sum, self.relu2 = FloatFunctional(), nn.ReLU()
        self.pool, self.fc = nn.AdaptiveAvgPool2d(2), nn.Linear(32, 4)

    def forward(self, x):
        x = self.relu1(self.bn1(self.conv1(self.quant(x))))
        x = self.relu2(self.sum.add(x, self.bn2(self.conv2(x))))
        return self.dequant(self.fc(torch.flatten(self.pool(x), 1)))


FUSED = [["conv1", "bn1", "relu1"], ["conv2", "bn2"]]


def images(count, seed):
    """Bright bars in one of four places, and where they are."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((count, 1, 10, 10), generator=generator) * 0.5
    y = torch.arange(count) % 4
    for i in range(count):
        top, left = divmod(int(y[i]), 2)
        x[i, 0, top * 5 : top * 5 + 5, left * 5 : left * 5 + 5] += 0.7
    return x, y


def trained(steps=40):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    for step in range(steps):
        loss = step_of(model, optimizer, *images(32, step))
    return model, loss


def step_of(model, optimizer, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def right(model):
    x, y = images(200, 1000)
    with torch.no_grad():
        return (model(x).argmax(1) == y).sum().item()


def names(model):
    """The classes of all modules inside, and which of them have integers."""
    return ["quantized " * ("quantized" in type(module).__module__) + type(module).__name__
            for module in model.modules()
            if module is not model and type(module).__name__ != "LinearPackedParams"]  # fmt: skip


# -- the three workflows ---------------------------------------------------------------------------


def dynamic():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    x = torch.randn(8, 16)
    results = []
    for how in ({nn.Linear}, {nn.Linear: default_dynamic_qconfig}, {"0": default_dynamic_qconfig}):
        small = quantize_dynamic(model, how, dtype=torch.qint8)
        with torch.no_grad():
            off = (small(x) - model(x)).abs().max().item()
        results.append([isinstance(small[0], torch.ao.nn.quantized.dynamic.Linear), off < 0.03])
    weight = small[0].weight()
    results.append([str(weight.dtype), str(weight.qscheme()), weight.int_repr().abs().max().item()])
    return results


def static(model, engine):
    model = copy.deepcopy(model).eval()
    model = fuse_modules(model, FUSED)
    model.qconfig = get_default_qconfig(engine)
    prepared = prepare(model)
    with torch.no_grad():
        for seed in range(3):
            prepared(images(32, 2000 + seed)[0])
    kinds = {type(each).__name__ for each in prepared.modules()}
    observed = sorted(name for name in kinds if "Observer" in name)
    quantized = convert(prepared)
    bytes_ = quantized.conv1.weight()
    return quantized, [names(quantized), observed, str(bytes_.qscheme()),
                       str(bytes_.dtype), tuple(bytes_.shape)]  # fmt: skip


def while_training(model):
    model = fuse_modules_qat(copy.deepcopy(model).train(), FUSED)
    model.qconfig = get_default_qat_qconfig("x86")
    prepared = prepare_qat(model)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.02)
    for step in range(12):
        if step == 8:
            prepared.apply(disable_observer)
        if step == 6:
            prepared.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
        loss = step_of(prepared, optimizer, *images(32, 3000 + step))
    quantized = convert(prepared.eval())
    return quantized, [names(prepared)[2], names(quantized)[2], loss < 0.5]


def by_one_call(model):
    """`quantize` and `quantize_qat`."""
    wrapped = QuantWrapper(nn.Sequential(nn.Linear(6, 5), nn.ReLU())).eval()
    wrapped.qconfig = get_default_qconfig("fbgemm")
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    small = quantize(wrapped, lambda model, x: model(x), [x])
    wrapped.train().qconfig = get_default_qat_qconfig("fbgemm")
    other = quantize_qat(wrapped, lambda model, x: model(x).sum().backward(), [x])
    with torch.no_grad():
        off = [(each(x) - wrapped.eval()(x)).abs().max().item() < 0.05 for each in (small, other)]
    return [names(small), off]


# -- observers and configurations ------------------------------------------------------------------


def observers():
    x = torch.linspace(-2, 3, 120).reshape(4, 30) * torch.tensor([[1.0], [2.0], [0.5], [1.5]])
    made = [
        MinMaxObserver(dtype=torch.quint8), MinMaxObserver(reduce_range=True),
        MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
        MovingAverageMinMaxObserver(averaging_constant=0.3), HistogramObserver(bins=64),
        PerChannelMinMaxObserver(ch_axis=0, dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
        MovingAveragePerChannelMinMaxObserver(ch_axis=1),
    ]  # fmt: skip
    results = []
    for observer in made:
        observer(x)
        observer(x * 0.5)
        scale, zero = observer.calculate_qparams()
        results.append([type(observer).__name__, scale.reshape(-1)[:4].tolist(),
                        zero.reshape(-1)[:4].tolist()])  # fmt: skip
    fake = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    results.append([(fake(x) - x).abs().max().item() < 0.02, fake.scale.item()])
    return results


def own_configuration():
    """Weights by channel, activations by a moving average; one layer left as it is."""
    model = nn.Sequential(QuantStub(), nn.Linear(6, 5), DeQuantStub(), nn.Linear(5, 2)).eval()
    model.qconfig = QConfig(
        activation=MovingAverageMinMaxObserver.with_args(reduce_range=True),
        weight=PerChannelMinMaxObserver.with_args(
            dtype=torch.qint8, qscheme=torch.per_channel_symmetric
        ),
    )
    model[3].qconfig = None
    prepared = prepare(model)
    prepared(torch.linspace(-1, 1, 24).reshape(4, 6))
    return names(convert(prepared))


# -- custom modules --------------------------------------------------------------------------------


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


class Around(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return self.linear(x)


class ObservedCustom(Around):
    @classmethod
    def from_float(cls, custom):
        assert hasattr(custom, "qconfig")
        observed = cls(custom.linear)
        observed.qconfig = custom.qconfig
        return observed


class QuantizedCustom(Around):
    @classmethod
    def from_observed(cls, observed):
        assert hasattr(observed, "qconfig")
        assert hasattr(observed, "activation_post_process")
        observed.linear.activation_post_process = observed.activation_post_process
        return cls(torch.ao.nn.quantized.Linear.from_float(observed.linear))


def custom():
    model = nn.Sequential(QuantStub(), Custom(), DeQuantStub()).eval()
    model.qconfig = get_default_qconfig("x86")
    prepared = prepare(model, prepare_custom_config_dict={
        "float_to_observed_custom_module_class": {Custom: ObservedCustom}
    })  # fmt: skip
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    prepared(x)
    quantized = convert(prepared, convert_custom_config_dict={
        "observed_to_quantized_custom_module_class": {ObservedCustom: QuantizedCustom}
    })  # fmt: skip
    off = (quantized(x) - model(x)).abs().max().item() < 0.05
    return [type(prepared[1]).__name__, type(quantized[1]).__name__, names(quantized)[2], off]


# -- comparing numbers -----------------------------------------------------------------------------


def near(one, other):
    """Whether two tensors differ by little of the greatest number."""
    one, other = (each.dequantize() if each.is_quantized else each for each in (one, other))
    return ((one - other).abs().max() <= 0.1 * one.abs().max()).item()


def numbers_compared(model, quantized):
    floats = fuse_modules(copy.deepcopy(model).eval(), FUSED)
    weights = ns.compare_weights(floats.state_dict(), quantized.state_dict())
    results = [len(weights), [near(each["float"], each["quantized"]) for each in weights.values()]]
    x = images(8, 4000)[0]
    outputs = ns.compare_model_outputs(copy.deepcopy(floats), copy.deepcopy(quantized), x)
    results.append(sorted(outputs))
    results.append([near(each["float"][0], each["quantized"][0]) for each in outputs.values()])
    shadowed = ns.compare_model_stub(
        copy.deepcopy(floats), copy.deepcopy(quantized), {nn.Linear, Net}, x
    )
    results.append([sorted(shadowed), [near(each["float"][0], each["quantized"][0])
                                       for each in shadowed.values()]])  # fmt: skip
    return results


def main():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, that torchao is to follow
        return everything()


def everything():
    model, loss = trained()
    results = {"floats": [loss < 0.2, right(model.eval())]}
    results["dynamic"] = dynamic()
    for engine in ("x86", "fbgemm", "qnnpack"):
        quantized, told = static(model, engine)
        results[engine] = [told, right(quantized) >= 195]
    results["compared"] = numbers_compared(model, static(model, "x86")[0])
    quantized, told = while_training(model)
    results["while training"] = [told, right(quantized) >= 195]
    kept = copy.deepcopy(quantized)
    kept.load_state_dict(quantized.state_dict())
    results["loaded"] = right(kept) == right(quantized)
    results |= {"by one call": by_one_call(model), "observers": observers()}
    results |= {"own": own_configuration(), "custom": custom()}
    return results


if __name__ == "__main__":
    for name, result in main().items():
        print(name, result)
