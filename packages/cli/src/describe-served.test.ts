import { execFileSync } from 'node:child_process'
import { Agency, Agent } from '@bureau/framework'
import { loadConfig } from '@bureau/server'
import { expect, test } from 'vitest'
import { describeServer } from './describe-served.ts'

const desk = new Agency({ entryPoint: new Agent({ name: 'Desk' }) })

test.each(['one', 'one two', 'one\ttwo three'])('the printed line sends one token of "%s"', (tokens) => {
  const printed = describeServer('http://x.test', { agencies: { desk } }, loadConfig({ APP_TOKEN: tokens }))
  const sent = /"Authorization: [^"]*"/.exec(printed)?.[0] ?? ''

  const shown = execFileSync('sh', ['-c', `printf %s ${sent}`], { env: { APP_TOKEN: tokens }, encoding: 'utf8' })

  expect(shown).toBe('Authorization: Bearer one')
})
