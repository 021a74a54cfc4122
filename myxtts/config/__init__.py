"""The settings of MyXTTS and how they are read."""
