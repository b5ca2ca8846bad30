import {
  AdjustmentCreate,
  Allowance,
  AllowancePolicy,
  LedgerEntry,
  LedgerQuery,
  Member,
  MemberBatch,
  MemberBatchResult,
  MemberCreate,
  MemberListQuery,
  MemberPatch,
  ServiceError,
} from '@bureau/protocol'
import { type Answered, created, NO_CONTENT, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { readIfMatch } from '../http/if-match.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { readIdempotencyKey } from '../http/route-settings.ts'
import { fingerprint } from '../security/fingerprint.ts'
import { adjustAllowance, listLedger } from './adjust-allowance.ts'
import { deleteMember, getAllowance, getMember, listMembers, setAllowance, updateMember } from './manage-members.ts'
import { registerMember, registerMembers } from './register-members.ts'

const MEMBERS = '/v1/integrations/:integrationId/members'
const MEMBER = `${MEMBERS}/:consumerId`
const MEMBER_CODES = { consumerId: 'invalid_consumer_id', allowance: 'invalid_allowance' } as const

/** A policy, or null: the integration's default again. */
const AllowanceBody = AllowancePolicy.nullable()

export const memberRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'POST',
      url: MEMBERS,
      id: 'registerMember',
      tag: 'Members',
      summary: 'Register a consumer',
      description: '201: registered. 200: it was there with equal values.',
      scope: 'members:write',
      idempotent: true,
      body: MemberCreate,
      codes: MEMBER_CODES,
      success: { 201: Member, 200: Member },
      errors: ['integration_not_found', 'invalid_consumer_id', 'invalid_allowance', 'member_exists'],
      examples: { request: { consumerId: 'u-77', allowance: { messages: 200, costUsd: 5, period: 'month' } } },
    },
    async (call) => {
      const { platform, caller, body } = call
      const args = { ...integrationKey(call), actor: caller.keyId, member: toNewMember(body) }
      const { created: isNew, member } = await platform.store.db.run(registerMember, args)
      return isNew ? created(member) : ok(member)
    },
  ),
  jsonRoute(
    {
      method: 'POST',
      url: `${MEMBERS}/batch`,
      id: 'registerMembers',
      tag: 'Members',
      summary:
        'Register up to 500 consumers; one that exists with other values fails alone, an invalid body as a whole',
      scope: 'members:write',
      idempotent: true,
      body: MemberBatch,
      success: { 200: MemberBatchResult },
      errors: ['integration_not_found'],
    },
    async (call) => {
      const { platform, caller, body } = call
      const args = { ...integrationKey(call), actor: caller.keyId, members: body.members.map(toNewMember) }
      return ok({ results: await platform.store.db.run(registerMembers, args) })
    },
  ),
  listRoute(
    {
      url: MEMBERS,
      id: 'listMembers',
      tag: 'Members',
      summary: 'List members, newest first',
      scope: 'members:read',
      query: MemberListQuery,
      item: Member,
      errors: ['integration_not_found'],
    },
    (call, asked) => call.platform.store.db.run(listMembers, { ...asked, ...integrationKey(call) }),
  ),
  jsonRoute(
    {
      method: 'GET',
      url: MEMBER,
      id: 'getMember',
      tag: 'Members',
      summary: 'Get a member',
      scope: 'members:read',
      success: { 200: Member },
      errors: ['member_not_found'],
    },
    async (call) => ok(await call.platform.store.db.run(getMember, memberKey(call))),
  ),
  jsonRoute(
    {
      method: 'PATCH',
      url: MEMBER,
      id: 'updateMember',
      tag: 'Members',
      summary: 'Change a member; `inactive` refuses its next completions',
      scope: 'members:write',
      body: MemberPatch,
      headers: { 'If-Match': 'The ETag that the change is based on.' },
      success: { 200: Member },
      errors: ['member_not_found', 'version_conflict'],
    },
    async (call) => {
      const { platform, caller, body, request } = call
      const args = { ...memberKey(call), ...readIfMatch(request), actor: caller.keyId, changes: present(body) }
      return ok(await platform.store.db.run(updateMember, args))
    },
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: MEMBER,
      id: 'deleteMember',
      tag: 'Members',
      summary: 'Take a member away; its responses in progress finish',
      scope: 'members:write',
      headers: { 'If-Match': 'The ETag that the deletion is based on.' },
      success: { 204: null },
      errors: ['member_not_found', 'version_conflict'],
    },
    async (call) => {
      const deletion = { ...memberKey(call), actor: call.caller.keyId, ...readIfMatch(call.request) }
      await call.platform.store.db.run(deleteMember, deletion)
      return NO_CONTENT
    },
  ),
  jsonRoute(
    {
      method: 'GET',
      url: `${MEMBER}/allowance`,
      id: 'getAllowance',
      tag: 'Members',
      summary: 'Get what a member may spend and has spent',
      scope: 'members:read',
      success: { 200: Allowance },
      errors: ['member_not_found'],
    },
    async (call) => ok(await call.platform.store.db.run(getAllowance, memberKey(call))),
  ),
  jsonRoute(
    {
      method: 'PUT',
      url: `${MEMBER}/allowance`,
      id: 'setAllowance',
      tag: 'Members',
      summary: 'Give a member a policy of its own, or with `null` the default again',
      scope: 'members:write',
      body: AllowanceBody,
      nullableBody: true,
      codes: { '*': 'invalid_allowance' },
      success: { 200: Allowance },
      errors: ['member_not_found', 'invalid_allowance'],
    },
    async (call) => {
      const { platform, caller, body } = call
      const args = { ...memberKey(call), actor: caller.keyId, policy: body }
      return ok(await platform.store.db.run(setAllowance, args))
    },
  ),
  jsonRoute(
    {
      method: 'POST',
      url: `${MEMBER}/allowance/adjustments`,
      id: 'adjustAllowance',
      tag: 'Members',
      summary: 'Grant, correct or backfill; once for each Idempotency-Key',
      scope: 'members:write',
      body: AdjustmentCreate,
      codes: { '*': 'invalid_adjustment' },
      headers: { 'Idempotency-Key': 'Required.' },
      success: { 201: LedgerEntry, 200: LedgerEntry },
      errors: ['member_not_found', 'idempotency_key_required', 'invalid_adjustment', 'idempotency_key_reused'],
    },
    adjust,
  ),
  listRoute(
    {
      url: `${MEMBER}/allowance/ledger`,
      id: 'listLedger',
      tag: 'Members',
      summary: 'List what was booked, newest first',
      scope: 'members:read',
      query: LedgerQuery,
      item: LedgerEntry,
      errors: ['member_not_found'],
    },
    (call, asked) => call.platform.store.db.run(listLedger, { ...asked, ...memberKey(call) }),
  ),
]

const integrationKey = (call: Call) => ({ ownerId: call.caller.ownerId, integrationId: param(call, 'integrationId') })
const memberKey = (call: Call) => ({ ...integrationKey(call), consumerId: param(call, 'consumerId') })

type NewMember = z.output<typeof MemberCreate>

const toNewMember = (member: NewMember) => ({ ...present(member), consumerId: member.consumerId })

async function adjust(
  call: Call<unknown, z.output<typeof AdjustmentCreate>>,
): Promise<Answered<200 | 201, LedgerEntry>> {
  const { platform, caller, body, request } = call
  const idempotencyKey = readIdempotencyKey(request)
  if (idempotencyKey === undefined) throw new ServiceError('idempotency_key_required')
  const { entry, replayed } = await platform.store.db.run(adjustAllowance, {
    ...memberKey(call),
    actor: caller.keyId,
    idempotencyKey,
    fingerprint: fingerprint(platform.store.serverKey, { url: request.url, body }),
    adjustment: body,
  })
  return replayed ? ok(entry, { 'Idempotent-Replayed': 'true' }) : created(entry)
}
