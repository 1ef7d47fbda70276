"""What is here of torchaudio: the operators of its compiled library."""
