"""Studies over real packets: the papers' runs with real players, compared with the simulator."""
