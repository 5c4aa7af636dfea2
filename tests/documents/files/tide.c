/* Copyright 2024 somebody */

/**
 * Opens the harbour gate.
 * Never call it at night.
 */
int gate(void);

// The lamp burns for six hours
// after sunset.
int lamp;
