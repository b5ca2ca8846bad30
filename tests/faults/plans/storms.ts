import type { Ask, Attempt } from '../attempt.ts'
import { BOTH, ONE, pick, type Plan, type Scene, TWO } from '../plan.ts'

const STORM = 64

/** Crowds: no process is harmed, and every number is exact. */
export const STORMS: readonly Plan[] = [
  {
    group: 'admission storm',
    title: '64 messages at once for 4 chats, 3 times',
    scale: ONE,
    engines: BOTH,
    play: stormChats,
  },
  {
    group: 'admission storm',
    title: '64 messages for 4 chats on two processes',
    scale: TWO,
    engines: ['postgres'],
    play: stormChats,
  },
  {
    group: 'duplicate storm',
    title: '4 requests, each sent 32 times',
    scale: ONE,
    engines: BOTH,
    play: stormDuplicates,
  },
  {
    group: 'duplicate storm',
    title: '4 requests, each sent 32 times to two processes',
    scale: TWO,
    engines: ['postgres'],
    play: stormDuplicates,
  },
  {
    group: 'exact limits',
    title: '20 messages allowed, 52 tried; 5 runs at a time, 32 tried',
    scale: ONE,
    engines: BOTH,
    play: exactLimits,
  },
  {
    group: 'exact limits',
    title: '20 messages allowed, 52 tried on two processes',
    scale: TWO,
    engines: ['postgres'],
    play: exactLimits,
  },
  {
    group: 'cancels',
    title: '32 runs cancelled at any moment, in both modes',
    scale: ONE,
    engines: BOTH,
    play: cancels,
  },
  {
    group: 'cancels',
    title: '32 runs cancelled through another process',
    scale: TWO,
    engines: ['postgres'],
    play: cancels,
  },
  { group: 'clients that leave', title: '48 clients leave at any moment', scale: ONE, engines: BOTH, play: leave },
]

const over = (attempts: readonly Attempt[]): Promise<unknown> => Promise.all(attempts.map((attempt) => attempt.over))

/** All at once, over all processes; resolves when each has its answer. */
const crowd = (scene: Scene, size: number, askOf: (index: number) => Ask): Promise<Attempt[]> =>
  Promise.all(
    Array.from({ length: size }, (_, index) => scene.tenant.sendUntilDecided(askOf(index), placeOf(scene, index))),
  )

const placeOf = ({ installation }: Scene, index: number): number => index % installation.processes.length

/** Of those who want a chat at the same time one gets it, the others are told which run has it. */
async function stormChats(scene: Scene): Promise<void> {
  const { tenant, installation, object } = scene
  const consumerId = await tenant.addConsumer()
  for (let round = 0; round < 3; round++) {
    const attempts = await crowd(scene, STORM, (index) =>
      tenant.ask({ consumerId, chat: `storm-${tenant.integrationId}-${index % 4}`, behaviour: 'hold' }),
    )
    installation.model.release()
    await over(attempts)
    for (const [chat, ofChat] of Map.groupBy(attempts, ({ ask }) => ask.chat)) {
      const statuses = Map.groupBy(ofChat, ({ status }) => status)
      const [admitted, refused] = [statuses.get(200) ?? [], statuses.get(409) ?? []]
      if (admitted.length !== 1 || refused.length !== ofChat.length - 1) {
        object(`I1: of ${ofChat.length} for ${chat}, ${admitted.length} were admitted and ${refused.length} refused`)
      }
    }
  }
}

async function stormDuplicates(scene: Scene): Promise<void> {
  const { tenant, object } = scene
  const consumerId = await tenant.addConsumer()
  const asks = Array.from({ length: 4 }, () => tenant.ask({ consumerId, behaviour: 'tool' }))
  const attempts = await crowd(scene, 4 * 32, (index) => asks[(index >> 1) % 4]!)
  await over(attempts)
  for (const [ask, same] of Map.groupBy(attempts, (attempt) => attempt.ask)) {
    const news = same.filter(({ isReplay, status }) => status === 200 && !isReplay)
    const codes = new Set(
      same
        .filter(({ outcome }) => outcome !== 'ended')
        .map(({ status, code, outcome }) => `${status} ${code} ${outcome}`),
    )
    if (codes.size > 0) object(`of 32 for #${ask.number} some got ${[...codes].join(', ')}`)
    if (news.length !== 1) object(`I2: #${ask.number} is new to ${news.length} of 32`)
  }
}

async function exactLimits(scene: Scene): Promise<void> {
  const { tenant, installation, object } = scene
  const limited = await tenant.addConsumer({ messages: 20 })
  const counted = await crowd(scene, 52, () => tenant.ask({ consumerId: limited }))
  await over(counted)
  expectAdmitted(counted, 20, 'consumer_allowance_exhausted', object)
  await tenant.grant(limited, 3)
  const granted = await crowd(scene, 16, () => tenant.ask({ consumerId: limited }))
  await over(granted)
  expectAdmitted(granted, 3, 'consumer_allowance_exhausted', object)
  const narrow = await tenant.addConsumer({ maxConcurrentRuns: 5 })
  const parallel = await crowd(scene, 32, () => tenant.ask({ consumerId: narrow, behaviour: 'hold' }))
  installation.model.release()
  await over(parallel)
  expectAdmitted(parallel, 5, 'consumer_concurrency_exceeded', object)
}

function expectAdmitted(attempts: readonly Attempt[], count: number, code: string, object: Scene['object']): void {
  const admitted = attempts.filter(({ status }) => status === 200)
  const refused = attempts.filter((attempt) => attempt.code === code)
  if (admitted.length !== count || refused.length !== attempts.length - count) {
    const others = new Set(
      attempts.filter((each) => each.status !== 200 && each.code !== code).map((each) => each.code),
    )
    object(
      `${count} of ${attempts.length} allowed: ${admitted.length} admitted, ${refused.length} ${code}, ${[...others].join()}`,
    )
  }
}

async function cancels(scene: Scene): Promise<void> {
  const { tenant, random, object } = scene
  const consumerId = await tenant.addConsumer()
  const behaviours = ['hold', 'tool', 'answer'] as const
  await Promise.all(
    Array.from({ length: 32 }, async (_, index) => {
      const ask = tenant.ask({ consumerId, behaviour: pick(behaviours, random) })
      const attempt = await tenant.sendUntilDecided(ask, placeOf(scene, index))
      if (random() < 0.5) await attempt.speaking
      // The turn of a held answer ends when somebody lets it.
      const mode = ask.behaviour === 'hold' || random() < 0.5 ? 'immediate' : 'after_turn'
      const path = `/v1/runs/${attempt.runId}/cancel`
      const { status, body } = await tenant.call(
        'POST',
        path,
        { cancel_mode: mode },
        { processIndex: placeOf(scene, index + 1) },
      )
      if (status !== 200) object(`cancelling #${attempt.ask.number} was answered ${status} ${JSON.stringify(body)}`)
      await attempt.over
      if (attempt.result?.status !== body.run?.status) {
        object(
          `the cancel of #${attempt.ask.number} says ${body.run?.status}, its client saw ${attempt.result?.status}`,
        )
      }
    }),
  )
}

async function leave({ tenant, installation, random, object }: Scene): Promise<void> {
  const consumerId = await tenant.addConsumer()
  const attempts = Array.from({ length: 48 }, (_, index) => {
    const attempt = tenant.send(tenant.ask({ consumerId, behaviour: index % 2 ? 'hold' : 'tool' }))
    if (index % 3 === 0) attempt.leave()
    else if (index % 3 === 1) void attempt.answered.then(() => attempt.leave())
    else void attempt.speaking.then(() => random() < 0.5 && attempt.leave())
    return attempt
  })
  await Promise.all(attempts.map((attempt) => attempt.speaking))
  installation.model.release()
  await over(attempts)
  if (attempts.every(({ outcome }) => outcome !== 'left')) object('no client left')
}
