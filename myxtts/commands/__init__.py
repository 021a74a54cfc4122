"""The subcommands of `myxtts`, one module per group; `myxtts.cli` imports a module when its command is called."""
