"""Named fakes: small, deterministic, honest about being fakes. No LIBERO, no GL."""
