import { endpoint, json, refusal } from './operations.ts'

const TICKET = {
  type: 'object',
  properties: {
    ticket: { type: 'string' },
    expires_in: { type: 'integer', description: 'Seconds.' },
    protocols: { type: 'array', items: { type: 'string' }, description: 'What a browser gives its WebSocket.' },
  },
  required: ['ticket', 'expires_in', 'protocols'],
}

/** An agency's WebSocket for voice sessions, and the tickets with which browsers connect to it. */
export function realtimePaths(name: string): Record<string, object> {
  return {
    [`/${name}/realtime`]: {
      get: endpoint(`handler_${name}_realtime_get`, {
        tag: name,
        description:
          'A WebSocket with a voice agent behind it. Text frames are JSON objects with a `type`, binary frames are audio. ' +
          'Clients that cannot set headers offer the `protocols` of a ticket instead of the token.',
        responses: {
          101: { description: 'Switching Protocols' },
          400: { description: 'The handshake was not a valid one.' },
          401: refusal('No valid token or ticket.'),
          403: refusal('A page of an origin, or a host name, that is not allowed.'),
          404: refusal('The request was not a WebSocket handshake.'),
        },
      }),
    },
    [`/${name}/realtime_ticket`]: {
      post: endpoint(`handler_${name}_realtime_ticket_post`, {
        tag: name,
        description: 'A ticket for one connection within a minute.',
        responses: {
          200: { description: 'Successful Response', content: json(TICKET) },
        },
      }),
    },
  }
}
