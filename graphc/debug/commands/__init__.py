"""The commands of `graphc`. Each is a function that adds its parser and says, by
`set_defaults(run=…)`, what runs; that may return an exit code.

arguments has what several share; looking, running, graphs, comparing and building are the commands.
"""
