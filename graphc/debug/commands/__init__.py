"""The commands of `graphc`. Each is a function that adds its parser and says, by
`set_defaults(run=…)`, what runs; that may return an exit code."""
