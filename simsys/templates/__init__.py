"""Files to start from, as `simsys init` writes them: experiments, a GPU of the user's own, a plug-in.

The files are beside this one, with the ending `.tmpl`. Their `$names` are replaced.

Start with `starts.py`, which lists them.
May import: config, data, errors, report.
"""
