"""`torch.quasirandom`: not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "quasirandom", "SobolEngine", "scipy.stats.qmc.Sobol draws such points, torch.rand others"
    )
)
