import { endpoint, invalidRequest, json, USER_CHECK } from './operations.ts'

const text = { type: 'string' }

const SIGNED_IN = {
  type: 'object',
  properties: { status: { type: 'string', enum: ['ok', 'pending'] }, state: text, server_name: text },
  required: ['status', 'state', 'server_name'],
}

const SIGN_IN = {
  type: 'object',
  properties: {
    state: text,
    status: { type: 'string', description: '`pending`, `authorized`, `error:<reason>` or `timeout`.' },
    auth_url: text,
    server_name: text,
    user_id: text,
  },
  required: ['state', 'status', 'auth_url', 'server_name', 'user_id'],
}

function query(name: string, description: string, required = false): object {
  return { name, in: 'query', required, description, schema: text }
}

/** Where authorization servers send browsers back to, and what became of a sign-in. */
export const SIGN_IN_PATHS = {
  '/auth/callback': {
    get: endpoint('handler_auth_callback_get', {
      tag: 'sign-in',
      description: 'Where an authorization server sends the browser back to. Needs no token.',
      parameters: [
        query('state', 'Of the address that the user was sent to.', true),
        query('code', 'The authorization code.'),
        query('error', 'Why there is no code.'),
        query('error_description', 'The same in words.'),
      ],
      responses: {
        200: {
          description: 'Signed in; browsers get a page.',
          content: { ...json(SIGNED_IN), 'text/html': { schema: text } },
        },
        422: invalidRequest(),
        ...USER_CHECK.responses,
      },
      refusals: ['oauth_callback_rejected', ...USER_CHECK.refusals],
      open: true,
    }),
  },
  '/auth/status/{state}': {
    get: endpoint('handler_auth_status_get', {
      tag: 'sign-in',
      description: 'What became of a sign-in, for the user who began it.',
      parameters: [{ name: 'state', in: 'path', required: true, schema: text }],
      responses: {
        200: { description: 'Successful Response', content: json(SIGN_IN) },
        ...USER_CHECK.responses,
      },
      refusals: ['unknown_oauth_state', ...USER_CHECK.refusals],
    }),
  },
}
