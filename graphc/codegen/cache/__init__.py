"""What is kept on disk between processes: object_cache has a file for each kernel's object code,
private_files reads what nobody but this user can have written.
"""
