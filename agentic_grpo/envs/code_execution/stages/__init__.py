"""The stages of the workflow: what is written, what runs, what is answered."""
