"""Comparison of simulated and measured values for every setting that was measured on a kernel.

`read` takes a folder of measurements, `simulate` runs its settings, `measure` computes the kernel's
figures from a trace just as the laboratory did from the kernel, `compare` judges, `page` writes the
page of the documentation.
"""
