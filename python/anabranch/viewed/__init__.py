"""A study over real packets: the papers' runs with the programs that they had, and with the simulator."""
