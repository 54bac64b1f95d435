"""Holding the simulator against a kernel: every measured setting run again, figure beside figure.

`read` takes a folder of measurements, `simulate` runs its settings, `measure` computes the kernel's
figures from a trace just as the laboratory did from the kernel, `compare` judges, `page` writes the
page of the documentation.
"""
