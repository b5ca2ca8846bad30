import {
  ChatBranchCreate,
  ChatError,
  ChatListQuery,
  ChatMessage,
  ChatPatch,
  ChatStatus,
  ChatStatusQuery,
  CreateNewChatRequest,
  CreateNewChatResponse,
  MessageListQuery,
  PlatformChat,
} from '@bureau/protocol'
import { type Answered, created, NO_CONTENT, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { reachOf, requireScope } from '../caller.ts'
import { requireOfConsumer } from '../consumer-tokens/consumer-request.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { eventsUrlOf } from '../http/addresses.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { branchChat } from './branch-chat.ts'
import { findAliasStatus, findRequestStatus, getChatStatus } from './chat-status.ts'
import { listMessages } from './list-messages.ts'
import { createChat, deleteChat, getChat, listChats, updateChat } from './manage-chats.ts'

export const chatRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'POST',
      url: '/create_new_chat',
      id: 'createNewChat',
      consumer: 'chat',
      tag: 'Chats',
      summary: 'Create a chat for a user under an existing integration',
      scope: 'runs',
      surface: 'create_chat',
      idempotent: true,
      body: CreateNewChatRequest,
      success: { 200: CreateNewChatResponse },
      errors: ['integration_not_found'],
      errorBody: ChatError,
      examples: { request: EXAMPLES.integrationId, response: EXAMPLES.chatId },
    },
    async ({ platform, caller, body: { apiIntegrationId: integrationId } }) => {
      requireScope(caller, 'runs', integrationId)
      return ok(await platform.store.db.run(createChat, { ...reachOf(caller), integrationId }))
    },
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/chat_status',
      id: 'findChatStatus',
      consumer: 'chat',
      tag: 'Chats',
      summary: 'Find out what became of a completion, by its usageRequestId or the alias of its chat',
      description:
        '404 usage_request_not_found: nothing is reserved under this id at this moment. Sending the same completion ' +
        'with the same id is then safe.',
      scope: 'runs',
      query: ChatStatusQuery,
      examples: { response: EXAMPLES.status },
      success: { 200: ChatStatus },
      errors: ['usage_request_not_found', 'integration_not_found', 'chat_not_found'],
    },
    findStatus,
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/chats/:chatId/status',
      id: 'getChatStatus',
      consumer: 'read',
      tag: 'Chats',
      summary: 'Get where a chat stands with its latest run',
      scope: 'chats:read',
      success: { 200: ChatStatus },
      errors: ['chat_not_found'],
    },
    async (call) => ok(withEventsUrl(call, await call.platform.store.db.run(getChatStatus, chatKey(call)))),
  ),
  listRoute(
    {
      url: '/v1/chats',
      id: 'listChats',
      consumer: 'read',
      tag: 'Chats',
      summary: 'List chats, latest activity first',
      scope: 'chats:read',
      query: ChatListQuery,
      item: PlatformChat,
    },
    async ({ platform, caller }, { apiIntegrationId: integrationId, ...asked }) => {
      requireScope(caller, 'chats:read', integrationId)
      return platform.store.db.run(listChats, { ...asked, ...present({ integrationId }), ...reachOf(caller) })
    },
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/chats/:chatId',
      id: 'getChat',
      consumer: 'read',
      tag: 'Chats',
      summary: 'Get a chat',
      scope: 'chats:read',
      success: { 200: PlatformChat },
      errors: ['chat_not_found'],
    },
    async (call) => ok(await call.platform.store.db.run(getChat, chatKey(call))),
  ),
  jsonRoute(
    {
      method: 'PATCH',
      url: '/v1/chats/:chatId',
      id: 'updateChat',
      tag: 'Chats',
      summary: 'Change the title or the alias of a chat',
      scope: 'chats:write',
      body: ChatPatch,
      success: { 200: PlatformChat },
      errors: ['chat_not_found', 'alias_in_use'],
    },
    async (call) => ok(await call.platform.store.db.run(updateChat, { ...chatKey(call), changes: present(call.body) })),
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: '/v1/chats/:chatId',
      id: 'deleteChat',
      tag: 'Chats',
      summary: 'Delete a chat; its content is erased within a day',
      scope: 'chats:write',
      success: { 204: null },
      errors: ['chat_not_found', 'run_active'],
    },
    async (call) => {
      await call.platform.store.db.run(deleteChat, { ...chatKey(call), actor: call.caller.keyId })
      return NO_CONTENT
    },
  ),
  listRoute(
    {
      url: '/v1/chats/:chatId/messages',
      id: 'listMessages',
      consumer: 'read',
      tag: 'Chats',
      summary: 'List the messages of a chat, failed responses included',
      scope: 'chats:read',
      query: MessageListQuery,
      item: ChatMessage,
      errors: ['chat_not_found'],
    },
    (call, { order = 'asc', ...asked }) =>
      call.platform.store.db.run(listMessages, { order, ...asked, ...chatKey(call) }),
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/chats/:chatId/branches',
      id: 'branchChat',
      consumer: 'chat',
      tag: 'Chats',
      summary: 'Create a chat with what was said in this one before a message',
      description:
        'To say a message anew: send the other one to the new chat. This one stays as it is, and no run is started. ' +
        'Copied messages have ids of their own and keep their `runId`.',
      scope: 'runs',
      idempotent: true,
      body: ChatBranchCreate,
      success: { 201: PlatformChat },
      errors: ['chat_not_found', 'run_not_found', 'alias_in_use'],
      examples: { request: EXAMPLES.branch },
    },
    branch,
  ),
]

async function findStatus(call: Call<z.output<typeof ChatStatusQuery>>): Promise<Answered<200, ChatStatus>> {
  const { platform, caller, query } = call
  const { apiIntegrationId: integrationId, usageRequestId, aliasChatId: alias } = query
  requireScope(caller, 'runs', integrationId)
  const wanted = { ...reachOf(caller), integrationId }
  const { db } = platform.store
  const status = await (usageRequestId === undefined
    ? db.run(findAliasStatus, { ...wanted, alias: alias! })
    : db.run(findRequestStatus, { ...wanted, usageRequestId }))
  return ok(withEventsUrl(call, status))
}

function withEventsUrl({ platform, request }: Call, status: ChatStatus): ChatStatus {
  const { recovery, run } = status
  if (recovery.action !== 'attach' || run === null) return status
  return { ...status, recovery: { ...recovery, eventsUrl: eventsUrlOf(platform, request, run.runId) } }
}

function chatKey(call: Call): ReturnType<typeof reachOf> & { readonly chatId: string } {
  return { ...reachOf(call.caller), chatId: param(call, 'chatId') }
}

async function branch(call: Call<unknown, z.output<typeof ChatBranchCreate>>): Promise<Answered<201, PlatformChat>> {
  const { store } = call.platform
  const { beforeRunId, aliasChatId = null } = call.body
  requireOfConsumer({ aliasChatId }, call.caller)
  const key = chatKey(call)
  const dataKey = await store.dataKeys.of(key.ownerId)
  return created(await store.db.run(branchChat, { ...key, beforeRunId, aliasChatId, dataKey }))
}
