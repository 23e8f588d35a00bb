"""Events and findings of many programs, kept so that a change of the interpreter shows what it changes."""
