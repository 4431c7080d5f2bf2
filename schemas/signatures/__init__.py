"""What is signed, and by whom: keys of owners and sites."""
