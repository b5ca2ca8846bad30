/** The user of a test request: `x-test-user: User ada`, or the cookie `session=ada`. Real servers check a session. */
export function testUser(request: { headers: Record<string, string | string[] | undefined> }): string {
  const session = /session=(\w+)/.exec(String(request.headers['cookie'] ?? ''))?.[1]
  const named = /^User (.+)$/.exec(String(request.headers['x-test-user'] ?? ''))?.[1]
  return named ?? session ?? ''
}

export const asUser = (name: string): Record<string, string> => ({ 'x-test-user': `User ${name}` })
