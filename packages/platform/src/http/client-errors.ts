import type { Socket } from 'node:net'
import { NO_SNIFFING } from '@bureau/runtime'

/**
 * Answers what is not HTTP, or has headers beyond the limit, before any route is known. Nothing was reserved by it, so
 * the header of the completion is always right here.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  const status = tooLarge ? '431 Request Header Fields Too Large' : late ? '408 Request Timeout' : '400 Bad Request'
  const body = JSON.stringify({ error: 'The request is not valid HTTP.', code: 'invalid_request' })
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${body.length}`,
    'X-Agent-Run-Admitted: false',
    'Cache-Control: no-store',
    'Connection: close',
    NO_SNIFFING.join(': '),
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
