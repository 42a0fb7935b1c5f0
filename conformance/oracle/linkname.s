// Go wants an assembly file in a package that declares functions without bodies: the linked names of upstream's own.
