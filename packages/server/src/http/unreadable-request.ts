import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { NO_SNIFFING } from '@bureau/runtime'

type ConnectionError = Error & { readonly code?: string }

const STATUS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
}

/** Answers what is no HTTP request, in the form of every other refusal; no route ever sees it. */
export function refuseUnreadable(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const status = STATUS[error.code ?? ''] ?? 400
  const reason = STATUS_CODES[status]!
  const body = JSON.stringify({ detail: reason, error: reason })
  const headers = [
    'content-type: application/json',
    `content-length: ${body.length}`,
    'connection: close',
    NO_SNIFFING.join(': '),
  ]
  socket.end(`HTTP/1.1 ${status} ${reason}\r\n${headers.join('\r\n')}\r\n\r\n${body}`)
}
