package millstream

// Version of this module, told to the sidecar.
const Version = "0.1.0"
