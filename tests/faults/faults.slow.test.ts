import { ENGINES } from '@bureau/platform/testing'
import { expect, test } from 'vitest'
import type { Plan } from './plan.ts'
import { lineOf } from './report.ts'
import { runSession } from './session.ts'

/** A few of each kind that are over soon; `npm run faults` carries out all of them. */
const SAMPLE: readonly RegExp[] = [
  /^64 messages at once/,
  /^4 requests, each sent 32 times$/,
  /^20 messages allowed, 52 tried; /,
  /^kill -9 inside admitRun/,
  /^kill -9 after finalizeRun/,
  /^kill -9 inside reapRun/,
  /^the connection of admitRun breaks after COMMIT was sent, before its answer$/,
]

const isSampled = ({ title }: Plan): boolean => SAMPLE.some((form) => form.test(title))

test.each(ENGINES)(
  'no promise is broken by storms, kills and cut connections on %s',
  { timeout: 240_000 },
  async (name) => {
    const engine = name === 'pglite' ? 'embedded' : name

    const { results } = await runSession({ engine, seed: 1, isWanted: isSampled, onResult: () => {} })

    const broken = results.filter(({ violations }) => violations.length > 0)
    expect(broken.map(lineOf)).toEqual([])
    expect(results.length).toBeGreaterThanOrEqual(engine === 'postgres' ? 8 : 7)
  },
)
