/** Version of this package, told to the sidecar. */
export const VERSION = "0.1.0";
