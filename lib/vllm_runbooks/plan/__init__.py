"""What a model needs on each GPU, by the rules of the release that is to run it."""
