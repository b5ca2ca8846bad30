/** The server that the page came from, without a slash at the end: the console lies at `/console/` of it. */
export const SERVER: string = new URL('..', document.baseURI).href.replace(/\/$/, '')

/** The address of a path of the server, as programs elsewhere would write it. */
export const addressOf = (path: string): string => `${SERVER}/${path.replace(/^\//, '')}`
