"""Steps of serving teams: what a pass costs, how passes follow each other, and runs of steps in closed form."""
