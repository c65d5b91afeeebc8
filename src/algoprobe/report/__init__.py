"""Charts, tables and static pages from run folders. Imports core and tasks (for drawings) alone.

`runs.load` reads a folder, `page.write` makes its page, `tables` and `charts` make the parts. Nothing heavy is imported
before a chart is asked for, so that the command line's help stays instant.
"""
