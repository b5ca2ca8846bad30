/**
 * What API keys and consumer tokens may do, and what webhooks tell about: each list once, for the checks of the server and the
 * forms of pages. It needs no zod, so that a page which offers the choices does not load it.
 */

export const API_KEY_SCOPES = [
  '*',
  'runs',
  'runs:approve',
  'chats:read',
  'chats:write',
  'members:read',
  'members:write',
  'usage:read',
  'integrations:read',
  'integrations:write',
  'files:read',
  'files:write',
  'webhooks',
  'keys',
  'consumer_tokens',
] as const

export const CONSUMER_SCOPES = ['chat', 'read', 'upload', 'approve'] as const

export const WEBHOOK_EVENTS = [
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.waiting',
  'run.approval_decided',
  'run.approval_expired',
  'member.allowance_threshold',
  'member.allowance_exhausted',
  'api_key.revoked',
] as const

export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]
