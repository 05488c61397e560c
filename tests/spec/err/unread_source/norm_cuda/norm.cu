// Grüße.
