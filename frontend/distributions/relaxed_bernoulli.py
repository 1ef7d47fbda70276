"""`torch.distributions.relaxed_bernoulli`: not here yet."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributions.relaxed_bernoulli",
        "LogitRelaxedBernoulli RelaxedBernoulli",
        "planned; torch.sigmoid((logits + torch.logit(u)) / temperature) is a sample, for u from 0 "
        "to 1",
    )
)
