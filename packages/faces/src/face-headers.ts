/**
 * Headers of answers that clients of these protocols read: a page of another origin sees none but those that a server names. Without its
 * session an MCP client cannot cancel, and without the challenge it does not find where to sign in.
 */
export const FACE_HEADERS = ['Mcp-Session-Id', 'Retry-After', 'WWW-Authenticate', 'X-Request-Id', 'X-Should-Retry']
