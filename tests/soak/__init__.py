"""Mixed load with clients that vanish, for long: what a server holds must come back to where it was (`make soak`)."""
