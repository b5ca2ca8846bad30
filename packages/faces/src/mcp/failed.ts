import type { CallToolResult } from '@modelcontextprotocol/server'

/** A call that has failed, in words that its model can do something with, and under our code. */
export function failed(code: string, message: string): CallToolResult & { readonly isError: true } {
  return { isError: true, content: [{ type: 'text', text: message }], _meta: { 'bureau/code': code } }
}
