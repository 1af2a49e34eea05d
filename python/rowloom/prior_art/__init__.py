"""The published protocol for `adaln_row_gather` (RL-Align/RL-Kernel RFC #420), through PyTorch.

`python -m rowloom.prior_art --op adaln_row_gather --out report.json` measures batch invariance,
accuracy and time of rowloom and of what else is there, in one run, in the published schema.
`python -m rowloom.prior_art.figures report.json` draws a report again, and
`python -m rowloom.prior_art.table report.json ...` prints reports as rows of Markdown.
"""
