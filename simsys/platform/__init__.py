"""The virtual hardware: devices, links, memory, topology, and the SimPy environment they live in."""
