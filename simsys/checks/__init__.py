"""The parts of `simsys.check`: what has to fit together in a scenario, by topic."""
