"""What is written and read: files, descriptions from which objects are built again, and the zoo."""
