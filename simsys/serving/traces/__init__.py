"""Request traces: recorded arrivals and lengths, read from files that are recognised by their content.

A format is an entry of one table: `csv_formats.CSV_FORMATS`, `json_lines.LINE_FORMATS` or
`json_documents.DOCUMENT_FORMATS`.
"""

from simsys.serving.traces.reader import Trace, read_trace

__all__ = ["Trace", "read_trace"]
