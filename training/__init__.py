"""How ``tiny`` was made: demonstrations, training, export. Needs torch; the package does not."""
