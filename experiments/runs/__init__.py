"""One run: its folder, its base model, where it comes from."""
