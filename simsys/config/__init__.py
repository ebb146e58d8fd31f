"""What a user describes: the schema of the files and how they are read."""
