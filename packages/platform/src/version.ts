/** Of this package, as the platform says it. */
export const VERSION = '0.1.0'
