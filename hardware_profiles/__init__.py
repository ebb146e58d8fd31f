"""Hardware profiles: GPUs, nodes, fabrics and software engines, one YAML file each, every number with its source."""
