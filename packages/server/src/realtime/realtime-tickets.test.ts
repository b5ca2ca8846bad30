import { expect, test } from 'vitest'
import { RealtimeTickets } from './realtime-tickets.ts'

let now = 1_790_000_000_000
const clock = (): number => now

test('a ticket works once, for its agency', () => {
  const tickets = new RealtimeTickets('secret', clock)
  const { ticket, expiresInSeconds } = tickets.issue('shop')

  expect(expiresInSeconds).toBe(60)
  expect(ticket).toMatch(/^[\w-]+\.[\w-]+$/)
  expect(tickets.redeem('other', ticket)).toBe(false)
  expect(tickets.redeem('shop', ticket)).toBe(true)
  expect(tickets.redeem('shop', ticket)).toBe(false)
})

test('a ticket expires after a minute', () => {
  const tickets = new RealtimeTickets('secret', clock)
  const { ticket } = tickets.issue('shop')
  now += 60_000
  expect(tickets.redeem('shop', ticket)).toBe(false)
})

test('another replica with the same server token knows the ticket; one with another token does not', () => {
  const { ticket } = new RealtimeTickets('secret', clock).issue('shop')
  expect(new RealtimeTickets('other', clock).redeem('shop', ticket)).toBe(false)
  expect(new RealtimeTickets('secret', clock).redeem('shop', ticket)).toBe(true)
})

test.each(['', '.', 'a.b', 'secret'])('%j is no ticket', (ticket) => {
  expect(new RealtimeTickets('secret', clock).redeem('shop', ticket)).toBe(false)
})

test('a changed ticket is none', () => {
  const tickets = new RealtimeTickets('secret', clock)
  const [payload = '', signature] = tickets.issue('shop').ticket.split('.')
  const content = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const forged = Buffer.from(JSON.stringify({ ...content, agency: 'other' })).toString('base64url')
  expect(tickets.redeem('other', `${forged}.${signature}`)).toBe(false)
})
