"""`torch.distributions.wishart`: not here yet."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributions.wishart", "Wishart", "planned; x @ x.mT of normal x is a sample of it"
    )
)
