"""Real machines, as tools of NVIDIA describe them, become node profiles.

Start with `reading.py` (which kind of file it is) and `profile.py` (what a node profile says, and what it assumes);
`machine.py` has the data, `smi_matrix.py` and `nccl_xml.py` read the two kinds of files.
May import: config, errors, input_files, platform, report, units.
"""
