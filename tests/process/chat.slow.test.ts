import { spawn, spawnSync } from 'node:child_process'
import { text as consume } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { Agency, Agent, tool } from '@bureau/framework'
import { startHttpServer } from '../support/http-server.ts'
import { BIN, runBureau } from '../support/bureau-process.ts'
import { hold, refusal, text, textDeltas, toolCall, wholeText } from '../support/fake-provider.ts'
import { startOnTerminal } from '../support/on-terminal.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const chat = (args: readonly string[], input: string, env: Record<string, string> = {}) =>
  runBureau(['chat', ...args], env, { input })

test('talks over many turns and sends the whole conversation each time', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
  server.provider.respond((request) => text(`heard ${request.lastUserText}, ${request.items.length} items`))
  const turns = Array.from({ length: 20 }, (_, n) => `message ${n}`)

  const { out, code } = await chat(['--url', server.url, '--token', 'right'], `${turns.join('\n')}\n`)

  expect(out.trim().split('\n')).toEqual(turns.map((turn, n) => `heard ${turn}, ${n * 2 + 1} items`))
  expect(code).toBe(0)
  expect(server.provider.rejected).toEqual([])
})

test('goes on with the agent that the conversation was handed over to', async () => {
  const guide = new Agent({ name: 'Guide', model: 'gpt-test' })
  const entryPoint = new Agent({ name: 'Desk', model: 'gpt-test', handoffs: [guide] })
  const server = await startTestServer({ agencies: { desk: new Agency({ entryPoint }) } })
  server.provider.script([
    toolCall('transfer_to_Guide', {}),
    text('Here I am.'),
    text('Still here.'),
    text('And here.'),
  ])

  const { out, err } = await chat(['--url', server.url], 'Show me the way.\nThank you.\nGoodbye.\n')

  expect(out).toBe('Here I am.\nStill here.\nAnd here.\n')
  expect(err.match(/.* has the conversation\./g)).toEqual(['Guide has the conversation.'])
})

test('begins with the agent of --agent, and gives tools the context of --context, also after an approval', async () => {
  const refund = tool({
    name: 'refund',
    description: 'Refunds an order.',
    parameters: z.object({}),
    needsApproval: true,
    execute: (_input, { userContext }) => `Refunded to ${String(userContext['customer'])}.`,
  })
  const cashier = new Agent({ name: 'Cashier', model: 'gpt-test', tools: [refund] })
  const shop = new Agency({ entryPoint: new Agent({ name: 'Desk', model: 'gpt-test' }), agents: [cashier] })
  const server = await startTestServer({ agencies: { shop } })
  server.provider.script([toolCall('refund', {}), text('Done.')])
  const context = ['--context', '{"customer":"Ada"}']

  const { out, err, code } = await chat(['--url', server.url, '--agent', 'Cashier', ...context], 'Refund it.\ny\n')
  const wrong = await chat(['--url', server.url, '--context', 'customer=Ada'], '')
  const unknown = await chat(['--url', server.url, '--agent', 'Cook'], 'Hello\n')

  expect([out.trim(), code]).toEqual(['Done.', 0])
  expect(err).toContain('Cashier wants to use refund')
  expect(server.provider.requests.at(-1)?.toolOutputs).toMatchObject([{ output: 'Refunded to Ada.' }])
  expect(wrong).toMatchObject({
    code: 1,
    err: expect.stringContaining('Must be a JSON object, such as {"customer":"ada"}.'),
  })
  expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining('Cashier') })
})

test('says what is wrong when the token is, and when nothing listens', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

  const refused = await chat(['--url', server.url, '--token', 'wrong'], '')
  const missing = await chat(['--url', server.url], '')
  const absent = await chat(['--url', 'http://127.0.0.1:9'], '')

  expect(refused).toMatchObject({
    code: 1,
    err: `${server.url} does not take this token: give the one that the server has by --token or APP_TOKEN.\n`,
  })
  expect(missing.err).toContain(
    `${server.url} wants a token: give the one that the server has by --token or APP_TOKEN.`,
  )
  expect(absent.code).toBe(1)
  expect(absent.err).toContain('http://127.0.0.1:9')
})

test('without an address it is the port of PORT, where dev serves', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.respond(() => text('here'))

  expect(await chat([], 'hello\n', { PORT: new URL(server.url).port })).toMatchObject({ out: 'here\n', code: 0 })
})

test('an agency that is not served is named beside those that are, and so is an address without http://', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

  const misspelt = await chat(['--url', server.url, '--token', 'right', '--agency', 'sole'], 'Hello\n')
  const bare = await chat(['--url', server.url.replace('http://', '')], '')

  expect(misspelt).toMatchObject({ code: 1, err: expect.stringMatching(/serves no agency "sole"\. Agencies: \w+\./) })
  expect(bare).toMatchObject({ code: 1, err: expect.stringContaining('must begin with http:// or https://.') })
})

test('says so when the address leads to an agency, or to a website', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const website = await startHttpServer((_, response) => response.end('<!doctype html>'))

  const agency = await chat(['--url', `${server.url}/solo`], '')
  const page = await chat(['--url', website], '')

  const hint = `--url takes the address of the server, such as ${server.url}, and --agency the agency.`
  expect(agency).toMatchObject({ code: 1, err: expect.stringContaining(hint) })
  expect(page).toMatchObject({ code: 1, err: `${website} is no server of agencies.\n` })
})

test('a program sees by the exit code that an answer has failed, and by the other output how it came about', async () => {
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({ at: z.string() }),
    execute: () => 'Seen.',
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [look] }), env: { APP_TOKEN: 'right' } })
  server.provider.script([toolCall('look', { at: 'it' }), text('Fine.')])
  const told = await chat(['--url', server.url, '--token', 'right'], 'Hello\n')
  server.provider.respond(() => {
    throw new Error('the provider is away')
  })

  const failed = await chat(['--url', server.url, '--token', 'right'], 'Hello\n')

  expect(told).toMatchObject({ code: 0, out: 'Fine.\n', err: expect.stringContaining('Solo uses look {"at":"it"}') })
  expect(failed).toMatchObject({ code: 1, out: '' })
})

test('shows what comes in one piece, and sets the messages of an answer apart', async () => {
  const server = await startTestServer({ agencies: soloAgency({ tools: [lookAt('Seen.')] }) })
  server.provider.script([
    [wholeText('Let me look.'), toolCall('look', { at: 'it' })],
    text('It is fine.'),
    refusal('I refuse.'),
  ])

  const { out } = await chat(['--url', server.url], 'Hello\nAnd now?\n')

  expect(out).toBe('Let me look.\n\nIt is fine.\nI refuse.\n')
})

test('in a pipe an answer is one, also when it has waited for a decision', async () => {
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({}),
    needsApproval: true,
    execute: () => '',
  })
  const server = await startTestServer({
    agencies: soloAgency({ tools: [pay] }),
    env: { BUREAU_APPROVALS_PATH: await temporaryFolder() },
  })
  server.provider.script([
    toolCall('pay', {}),
    text('Paid.'),
    [wholeText('Once more.'), toolCall('pay', {})],
    text('Paid again.'),
    text('Bye.'),
  ])

  const { out } = await chat(['--url', server.url], 'Pay\ny\nPay\ny\nBye\n')

  expect(out).toBe('Paid.\nOnce more.\n\nPaid again.\nBye.\n')
})

test('asks about calls that need an approval: yes, no with a reason, other arguments', async () => {
  const calls: unknown[] = []
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    parameters: z.object({ amount: z.number() }),
    needsApproval: { when: true, edit: true },
    execute: ({ amount }) => {
      calls.push(amount)
      return `paid ${amount}`
    },
  })
  const folder = await temporaryFolder()
  const server = await startTestServer({
    agencies: soloAgency({ tools: [refund] }),
    env: { APP_TOKEN: 'right', BUREAU_APPROVALS_PATH: folder },
  })
  server.provider.respond(({ items }) => {
    const last = items.at(-1) as { role?: string; output?: string }
    return last.role === 'user' ? toolCall('refund', { amount: 250 }) : text(String(last.output).split('\n').join(' '))
  })
  const input = [
    'first',
    'y',
    'second',
    'what?',
    'n',
    'too much',
    'third',
    'e',
    'no JSON',
    'e',
    '{"amount":7}',
    'fourth',
  ]

  const { out, err, code } = await chat(['--url', server.url, '--token', 'right'], `${input.join('\n')}\n`)

  expect(out.split('\n').filter((line) => line !== '')).toEqual([
    'paid 250',
    'Not carried out: a person rejected this call. Reason: too much',
    'A person changed the arguments to {"amount":7}. paid 7',
  ])
  expect(calls).toEqual([250, 7])
  expect(err).toContain('Solo wants to use refund {"amount":250}')
  expect(err).toContain('The arguments must be a JSON object.')
  expect(err).toContain('Type y to carry the call out, n to reject it, e to change its arguments first.')
  // Nobody has decided about the fourth call.
  expect(err).toContain('Not decided, so not carried out: refund. The line after a message decides: y or n.')
  expect([code, server.provider.rejected]).toEqual([1, []])
})

const lookAt = (answer: string) =>
  tool({ name: 'look', description: 'Looks.', parameters: z.object({ at: z.string() }), execute: () => answer })

test('an answer stays as it was written while keys are pressed and the window changes', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.script([textDeltas(['The first half', hold(gate), ' and the second.']), text('Later.')])
  const chat = startOnTerminal(`sh -c 'tty; exec ${process.execPath} ${BIN} chat --url ${server.url}'`, {}, 40)
  await chat.output('you> ')
  chat.write('Hello\r')
  await chat.output('The first half')

  chat.write(`and then${'\u007f'.repeat(4)}what?`)
  spawnSync('stty', ['-F', /\/dev\/\S+/.exec(chat.printed())![0], 'cols', '30'])
  gate.release()
  await chat.output('you> ')

  expect(chat.printed()).toMatch(/The first half and the second\.\r\n/)
  chat.write('\u000c') // Ctrl-L: keys that come late on a busy machine are drawn one by one, this draws the line
  await chat.output('and what?')
  chat.write('\r')
  await chat.output('Later.')
  expect(server.provider.requests.at(-1)?.lastUserText).toBe('and what?')
})

test('lines that are typed early are shown when their turn comes, and none of them decides about a call', async () => {
  const paid: number[] = []
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({}),
    needsApproval: true,
    execute: () => `paid ${paid.push(1)}`,
  })
  const server = await startTestServer({
    agencies: soloAgency({ tools: [pay] }),
    env: { BUREAU_APPROVALS_PATH: await temporaryFolder() },
  })
  const gate = server.provider.gate()
  server.provider.script([[hold(gate, { before: 'headers' }), toolCall('pay', {})], text('Rejected.'), text('Yes?')])
  const chat = startOnTerminal(`${process.execPath} ${BIN} chat --url ${server.url}`, {})
  await chat.output('you> ')
  chat.write('Hello\ry\r')
  await gate.reached()
  gate.release()
  await chat.output('approve? [y]es, [n]o> ')
  chat.write('n\r')
  await chat.output('why?')
  chat.write('\r')
  await chat.output('Rejected.')
  await chat.output('y\r\n')
  await chat.output('Yes?')

  expect(paid).toEqual([])
})

test('a chat that ends before a call is decided does not send what was typed before the question', async () => {
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({}),
    needsApproval: true,
    execute: () => '',
  })
  const server = await startTestServer({
    agencies: soloAgency({ tools: [pay] }),
    env: { BUREAU_APPROVALS_PATH: await temporaryFolder() },
  })
  const gate = server.provider.gate()
  server.provider.script([[hold(gate, { before: 'headers' }), toolCall('pay', {})], text('Yes?')])
  const chat = startOnTerminal(`sh -c '${process.execPath} ${BIN} chat --url ${server.url}; echo ended with $?'`, {})
  await chat.output('you> ')
  chat.write('Hello\ry\r')
  await gate.reached()
  gate.release()
  await chat.output('approve? [y]es, [n]o> ')
  chat.write('\u0004')
  await chat.output('Not decided, so not carried out: pay.')

  await chat.output('ended with 1')
  expect(server.provider.requests).toHaveLength(1)
})

test.each([
  { columns: 80, at: 'x'.repeat(100), shown: `Solo uses look {"at":"${'x'.repeat(56)}…` },
  { columns: 60, at: '東京'.repeat(30), shown: `Solo uses look {"at":"${'東京'.repeat(9)}…` },
  { columns: 0, at: 'x'.repeat(50), shown: `Solo uses look {"at":"${'x'.repeat(50)}"}` },
])('a call takes one line of $columns columns, and is cut only where it is longer', async ({ columns, at, shown }) => {
  const server = await startTestServer({ agencies: soloAgency({ tools: [lookAt('Seen.')] }) })
  server.provider.script([toolCall('look', { at }), text('Fine.')])
  const chat = startOnTerminal(`${process.execPath} ${BIN} chat --url ${server.url}`, { NO_COLOR: '1' }, columns)
  await chat.output('you> ')
  chat.write('Hello\r')
  await chat.output('Fine.')

  expect(chat.printed()).toContain(`${shown}\r\n`)
})

test('a chat that nobody reads any more asks nothing more, and ends without a word', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.respond((request) => text(`heard ${request.lastUserText}`))
  const lines = '(for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done)'
  const command = `${lines} | "${process.execPath}" "${BIN}" chat --url ${server.url} | head -n 1; echo \${PIPESTATUS[1]}`
  const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([child.stdout, child.stderr].map((stream) => consume(stream)))

  expect(out).toBe('heard 1\n0\n')
  expect(err).not.toMatch(/EPIPE|Error/)
  expect(server.provider.requests.length).toBeLessThan(5)
})
